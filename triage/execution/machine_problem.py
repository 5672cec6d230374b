"""Failures of the machine, which say nothing about a compiler."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from triage.execution.reads import undeclared
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, NoAnswer

_NO_SPACE = "No space left on device"
_FULL = 1 << 20  # bytes; with less free space, any write may have failed
# bytes; a file that did not fit may have been that large, and be removed again
_NEARLY_FULL = 1 << 30
# share of the time that a run may wait for a core until its time limit shows nothing
_WAITED = 0.1
# exit codes of the loader and of shells for a program that they cannot run
_NOT_RUN = (126, 127)
_SKIPS = 125  # of a test script
_NOT_LOADED = re.compile(
    r"(?P<program>[^:]+): (?:error while loading shared libraries: [^:]+: "
    r"|[^:]+: version `(?P<symbol>[^']+)' not found \(required by |.*(?:not "
    r"found|cannot execute|Exec format error))"
)
# what follows, if anything, describes where it was searched
_PYTHON_NOT_LOADED = re.compile(
    r"^(?:OSError|ImportError): (?:[^\s:]+\.so[.\d]*: cannot open shared object file|"
    r"[^\s:]+: version `[^']+' not found|Could not (?:find/)?load shared "
    r"(?:object|library))[^\n]*",
    re.MULTILINE,
)


def machine_problem(execution: Execution) -> NoAnswer | None:
    """Return the problem of the machine that made a run fail, which says nothing about
    the compiler; None if it is not the machine's.
    """
    if execution.refused is not None:
        return undeclared(execution.refused)
    head = execution.stderr.head
    if execution.ending is Ending.NOT_STARTED:
        return NoAnswer(
            Cause.TOOLCHAIN, head.strip() or "the compiler could not be started"
        )
    if execution.ok or execution.ending is Ending.OVER_OUTPUT:
        return None
    if _loader_failed(execution):
        exception = _PYTHON_NOT_LOADED.search(execution.stderr.text)
        return NoAnswer(
            Cause.TOOLCHAIN,
            exception[0].strip() if exception else execution.stderr.first_line,
        )
    if _NO_SPACE in execution.stderr.text or _NO_SPACE in execution.stdout.text:
        full = _NEARLY_FULL
    else:
        full = _FULL
    if execution.disk_free is not None and execution.disk_free < full:
        return NoAnswer(
            Cause.ENVIRONMENT,
            f"no space left on the disk: {execution.disk_free >> 10} KiB were free",
        )
    if (
        execution.ending is Ending.TIMED_OUT
        and execution.waited > _WAITED * execution.seconds
    ):
        times = (
            f"{execution.seconds:.0f} s, {execution.waited:.0f} s of them without a "
            "core of the busy machine"
        )
        return NoAnswer(
            Cause.ENVIRONMENT,
            (
                f"stopped after {times}; use fewer --jobs, or a limit without "
                "waiting: `120s cpu`"
            ),
        )
    if execution.ending is Ending.SIGNALLED and execution.signal in (
        signal.SIGKILL,
        signal.SIGTERM,
        signal.SIGINT,
    ):
        name = signal.Signals(execution.signal).name
        return NoAnswer(
            Cause.ENVIRONMENT,
            f"killed from outside by {name} at {execution.peak_rss_mb:.0f} MiB"
            + (
                "; the system may have run out of memory"
                if execution.signal == signal.SIGKILL
                else ""
            ),
        )
    return None


def _loader_failed(execution: Execution) -> bool:
    """Return whether the loader or a shell refused to start the program, or Python
    could not load a library of a package.

    The first line of a loader or a shell begins with the name of the program.
    """
    match = _NOT_LOADED.match(execution.stderr.first_line)
    if match is None:
        return _PYTHON_NOT_LOADED.search(execution.stderr.text) is not None
    program = Path(match["program"])
    is_program = program.name == Path(execution.argv[0]).name or (
        program.is_absolute() and os.access(program, os.X_OK)
    )
    return is_program and (
        match["symbol"] is not None or execution.exit_code in _NOT_RUN
    )


def reason_script_skips(execution: Execution) -> NoAnswer | None:
    """Return why a user's test says nothing about the compiler: it skips, as for `git
    bisect run`, or something that it needs cannot be run. None if it decides.
    """
    if execution.ending is not Ending.EXITED:
        return None
    code = execution.exit_code
    if code == _SKIPS:
        return NoAnswer(Cause.INPUT, f"the script skips it (exit code {code})")
    if code in _NOT_RUN:
        last = execution.stderr.last_line or "it printed nothing"
        why = f"the script could not run a program (exit code {code}): {last}"
        return NoAnswer(Cause.TOOLCHAIN, why)
    return None
