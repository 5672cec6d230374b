"""Failures of the machine, which say nothing about a compiler."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from triage.execution.reads import undeclared_read
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, NoAnswer

_NO_SPACE = "No space left on device"
_FULL = 1 << 20  # bytes; with less free space, any write may have failed
# bytes; a file that did not fit may have been that large, and be removed again
_NEARLY_FULL = 1 << 30
# share of the time that a run may wait for a core until its time limit shows nothing
_WAITED = 0.1
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
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
        return undeclared_read(execution.refused)
    if execution.ending is Ending.NOT_STARTED:
        return NoAnswer(Cause.TOOLCHAIN, execution.stderr.text.strip())
    if execution.ok or execution.ending is Ending.OVER_OUTPUT:
        return None
    not_loaded = _why_not_loaded(execution)
    if not_loaded:
        return NoAnswer(Cause.TOOLCHAIN, not_loaded)
    full, free = _FULL, execution.disk_free
    if _NO_SPACE in execution.stderr.text + execution.stdout.text:
        full = _NEARLY_FULL
    reason = ""
    if free is not None and free < full:
        reason = f"no space left on the disk: {free >> 10} KiB were free"
    elif execution.waited > _WAITED * execution.seconds:
        waited = f"{execution.waited:.0f} of {execution.seconds:.0f} s without a core"
        reason = f"stopped after {waited} of the busy machine; use fewer --jobs"
    elif execution.ending is Ending.SIGNALLED and execution.signal in _FROM_OUTSIDE:
        size = f"{execution.peak_rss_mb:.0f} MiB"
        reason = f"killed from outside at {size}; the system may be out of memory"
    return NoAnswer(Cause.ENVIRONMENT, reason) if reason else None


def _why_not_loaded(execution: Execution) -> str | None:
    """Return the line with which the loader or a shell refused to start the program, or
    Python to load a library of a package; None if they did not.

    The first line of a loader or a shell begins with the name of the program.
    """
    match = _NOT_LOADED.match(execution.stderr.first_line)
    if match is None:
        exception = _PYTHON_NOT_LOADED.search(execution.stderr.text)
        return exception[0].strip() if exception else None
    program = Path(match["program"])
    is_program = program.name == Path(execution.argv[0]).name
    if program.is_absolute():
        is_program = is_program or os.access(program, os.X_OK)
    if is_program and (match["symbol"] or execution.exit_code in _NOT_RUN):
        return execution.stderr.first_line
    return None


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
