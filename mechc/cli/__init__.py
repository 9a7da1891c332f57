"""The command line: where it is entered, and left when it is interrupted."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without words, while it is loaded too."""
    try:
        from mechc.cli.commands import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
