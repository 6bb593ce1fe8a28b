"""Where the `queuectl` command and `python -m queuectl` begin.

The first thing is to answer Ctrl+C, before all the modules are imported: with Python's own answer
a short command would show a traceback for half of its life.
"""

# What `signal` is made of, without the half of the standard library that it imports.
import _signal  # type: ignore[import-not-found]
import gc
from os import _exit

# What is imported is no garbage. `queuectl.cli.main` looks for some again, now and then.
gc.disable()

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # `queuectl.cli.interrupts` takes over as soon as it is there. 130 is its EXIT_INTERRUPTED.
    _signal.signal(_signal.SIGINT, lambda _number, _frame: _exit(130))


def main() -> None:
    """Run the command line, and exit."""
    from queuectl.cli.interrupts import catch_interrupts

    catch_interrupts()

    from queuectl.cli.main import main

    main()


if __name__ == "__main__":
    main()
