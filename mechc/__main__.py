"""The command line by the name of the package: `python -m mechc`."""

from mechc.cli import main

main()
