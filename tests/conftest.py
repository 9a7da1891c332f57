"""Makes `truth` and `pairs`, beside this file, importable from the tests of every room."""

LONGEST = ("test_documentation.py", "test_demo.py", "test_distributed.py")
# One worker starts with rooms that compile accountants, the other one with symbolic rooms, so that
# in a new checkout both do not compile the same functions at the same time.
ROOMS = ("individual", "verify", "front", "calculus", "kernel", "loss", "app", "accountants")


def pytest_collection_modifyitems(items):
    """Put the longest tests first, so that no worker is left alone with one of them at the end."""
    rooms = {room: place for place, room in enumerate(ROOMS, 1)}
    items.sort(
        key=lambda item: (
            0 if item.path.name in LONGEST else rooms.get(item.path.parent.name, len(ROOMS))
        )
    )
