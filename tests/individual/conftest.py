"""Tables of a family are made once for all tests that ask about it."""

import pytest

from mechc.individual.family import Family


@pytest.fixture(autouse=True, scope="session")
def kept():
    """Families live as long as somebody holds them, and their tables with them."""
    held, of = [], Family.of
    patch = pytest.MonkeyPatch()
    patch.setattr(Family, "of", lambda *given: held.append(of(*given)) or held[-1])
    yield
    patch.undo()
