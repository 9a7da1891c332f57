"""Makes `truth` and `pairs`, beside this file, importable from the tests of every room."""

LONGEST = ("test_documentation.py", "test_demo.py", "test_distributed.py")


def pytest_collection_modifyitems(items):
    """Put the longest tests first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
