"""Exit codes: what each means, and how results and errors become one. `triage --help` prints this table.

Every error ends in a message on stderr, never in a traceback that a CI job takes for a regression.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import ParamSpec

import typer

from triage.cli.screen import print_stderr
from triage.model.errors import BadFiles, Interrupted, TriageError
from triage.model.outcome import Cause, Probe, Status, Untestable
from triage.report.printable import printed_streams

P = ParamSpec("P")


class Exit(IntEnum):
    """The exit codes that scripts rely on."""

    OK = 0
    FOUND = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "nothing regressed, or the command found what was asked",
    Exit.FOUND: "a regression or failure was found",
    Exit.USAGE: "usage error or bad input",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.ENVIRONMENT: "the environment failed (no such toolchain, disk full, no network)",
    Exit.INTERRUPTED: "interrupted; finished work is cached",
}


def command(function: Callable[P, Exit]) -> Callable[P, None]:
    """Make a function a command: end with the exit code it returns, and print its errors."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        def words() -> list[str]:
            resume = ["--resume"] if kwargs.get("resume") is False else []
            return _continuing(sys.argv[1:], resume)

        with printed_streams():
            code = int(_exit_code(lambda: function(*args, **kwargs), words))
        raise typer.Exit(code)

    return run


def _continuing(words: Sequence[str], resume: Sequence[str]) -> list[str]:
    """Return the words of the command line that continues this one."""
    end = words.index("--") if "--" in words else len(words)  # what follows are paths
    return ["triage", *words[:end], *resume, *words[end:]]


def _exit_code(call: Callable[[], Exit], continuing: Callable[[], Sequence[str]]) -> int:
    """Call a command and return its exit code. `continuing`: the words that continue it after an interruption."""
    from triage.toolchains.home import disk_errors

    try:
        with disk_errors("continue"):
            code = call()
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python complains when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (KeyboardInterrupt, Interrupted):
        print_stderr(f"interrupted; finished work is cached. To continue:\n  {shlex.join(continuing())}")
        return Exit.INTERRUPTED
    except BadFiles as error:
        for problem in error.problems:
            print_stderr(str(problem))
        print_stderr(f"{len(error.problems)} problem{'' if len(error.problems) == 1 else 's'}; nothing was run")
        return error.exit_code
    except TriageError as error:
        print_stderr(f"triage: {error}")
        return error.exit_code
    except OSError as error:
        reason = error.strerror or str(error)
        print_stderr(f"triage: {reason}: {error.filename}" if error.filename else f"triage: {reason}")
        return Exit.ENVIRONMENT
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "start new thread" not in str(error):
            return _internal_error()
        print_stderr(f"triage: the system has no more memory or threads: {error}; pass a lower --jobs or end other programs")
        return Exit.ENVIRONMENT
    except Exception:
        return _internal_error()


def _internal_error() -> Exit:
    print_stderr(traceback.format_exc())
    print_stderr("triage: internal error; this is a bug in triage, not in the compiler")
    return Exit.ENVIRONMENT


def exit_without_answer(causes: Iterable[Cause | None]) -> Exit:
    """Return the exit code of a command that has no answer, from the causes of its untestable probes.

    A recipe that cannot be used counts first, then an environment that failed; otherwise the command is inconclusive.
    """
    known = set(causes)
    if Cause.RECIPE in known:
        return Exit.USAGE
    return Exit.ENVIRONMENT if known & {Cause.ENVIRONMENT, Cause.TOOLCHAIN, Cause.INTERNAL} else Exit.INCONCLUSIVE


def exit_for_probes(probes: Iterable[Probe]) -> Exit:
    """Return the exit code for probes, see `exit_for_results`."""
    from triage.execution.judge import status_of

    results = ((probe.outcome, status_of(probe)) for probe in probes)
    return exit_for_results((status, outcome.cause if isinstance(outcome, Untestable) else None) for outcome, status in results)


def exit_for_results(results: Iterable[tuple[str, Cause | None]]) -> Exit:
    """Return the exit code for statuses, with the cause of each untestable one: FOUND for an unexpected failure, else why
    some could not be tested, else OK.
    """
    results = list(results)
    statuses = {status for status, _ in results}
    if Status.FAILED in statuses:
        return Exit.FOUND
    code = exit_without_answer(cause for status, cause in results if cause is not None)
    return Exit.OK if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE} else code
