"""Exit codes: what each means, and how results become one. `triage --help` prints this
table.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from triage.model.outcome import Cause, Status
from triage.model.probe_result import ProbeResult


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
    Exit.ENVIRONMENT: "the environment failed (no such toolchain, disk full, "
    "no network)",
    Exit.INTERRUPTED: "interrupted; finished work is cached",
}


class Result(Protocol):
    """The result of a command."""

    @property
    def exit(self) -> Exit: ...


def exit_without_answer(*causes: Cause | None) -> Exit:
    """Return the exit code of a command that has no answer, from the causes of its
    untestable probes.

    A recipe that cannot be used counts first, then an environment that failed;
    otherwise the command is inconclusive.
    """
    if Cause.RECIPE in causes:
        return Exit.USAGE
    if {Cause.ENVIRONMENT, Cause.TOOLCHAIN, Cause.INTERNAL}.intersection(causes):
        return Exit.ENVIRONMENT
    return Exit.INCONCLUSIVE


def exit_for_results(results: Iterable[ProbeResult], *, strict: bool = False) -> Exit:
    """Return FOUND for an unexpected failure, else the reason why some could not be
    tested, else OK. `strict`: an unexpected pass counts as a failure.
    """
    results = list(results)
    statuses = {result.status for result in results}
    if Status.FAILED in statuses or (strict and Status.XPASS in statuses):
        return Exit.FOUND
    code = exit_without_answer(*(result.cause for result in results))
    if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE}:
        return Exit.OK
    return code
