"""The command line: where it is entered, and left when it is interrupted."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without words, while it is loaded too."""
    try:
        sys.unraisablehook = _interrupt_again
        from mechc.cli.commands import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more where the first time was in a callback, which Python goes on from."""
    import _thread
    import signal
    from threading import Timer, main_thread

    def again() -> None:
        if sys.platform == "win32":
            _thread.interrupt_main()
        else:  # which wakes it where it waits, too
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    if ignored.exc_type is KeyboardInterrupt:
        later = Timer(0.02, again)
        later.daemon = True
        later.start()
    else:
        sys.__unraisablehook__(ignored)
