"""The command line: every command parses, calls one workflow, renders, and ends with
the exit code that it promises.
"""

import os
import signal


def main() -> None:
    """Run the program. Until a command begins, Ctrl-C ends it at once."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop_at_once)
    from triage.cli.app import run_command_line  # takes a while

    run_command_line()


def stop_at_once(_: int, __: object) -> None:
    """End the program, of which nothing has begun."""
    os.write(2, b"stopped\n")
    os._exit(130)
