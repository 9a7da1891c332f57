"""Makes `truth` and `pairs`, beside this file, importable from the tests of every room."""
