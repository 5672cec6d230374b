"""The command line: every command parses, calls one workflow, renders, and ends with
the exit code that it promises.
"""

# `signal` imports `enum`, and a Ctrl-C meanwhile would end in a traceback
import _signal  # type: ignore[import-not-found]
import gc
import os

# made before garbage is collected: more than a start makes, which nearly all stay
_OBJECTS = 100_000


def main() -> None:
    """Run the program. Until a command begins, Ctrl-C ends it at once."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, stop_at_once)
    gc.set_threshold(_OBJECTS)
    from triage.cli.app import app  # takes a while

    app(prog_name="triage")


def stop_at_once(_: int, __: object) -> None:
    """End the program, of which nothing has begun."""
    os.write(2, b"stopped\n")
    os._exit(130)
