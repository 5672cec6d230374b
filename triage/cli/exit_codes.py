"""How commands end: every error a sentence on stderr and the exit code that the README promises."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import ParamSpec

import typer

from triage.cli.screen import tell
from triage.execution.judge import status_of
from triage.model.errors import BadFiles, Interrupted, TriageError
from triage.model.outcome import Cause, Probe, Status, Untestable
from triage.toolchains.home import disk_errors

P = ParamSpec("P")


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FOUND = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


def guarded(command: Callable[P, Exit]) -> Callable[P, None]:
    """End a command with its exit code, its errors told as sentences."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        # A command that can go on where it stopped does so when it is told to.
        further = ["--resume"] if kwargs.get("resume") is False else []
        raise typer.Exit(int(_ending(lambda: command(*args, **kwargs), further)))

    return run


def _ending(call: Callable[[], Exit], further: Sequence[str]) -> int:
    try:
        with disk_errors("go on"):
            code = call()
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        # Whoever read our answer has enough; Python must not complain about it when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (KeyboardInterrupt, Interrupted):
        tell(f"interrupted; what was finished is kept. To go on:\n  {shlex.join(['triage', *sys.argv[1:], *further])}")
        return Exit.INTERRUPTED
    except BadFiles as error:
        for problem in error.problems:
            tell(str(problem))
        tell(f"{len(error.problems)} problem{'s' if len(error.problems) != 1 else ''}; nothing was run")
        return error.exit_code
    except TriageError as error:
        tell(f"triage: {error}")
        return error.exit_code
    except OSError as error:
        tell(f"triage: {error.strerror}: {error.filename}" if error.filename else f"triage: {error.strerror or error}")
        return Exit.ENVIRONMENT
    except Exception:  # exit status 1 would tell a CI job that a regression was found
        tell(traceback.format_exc())
        tell("triage: this is a bug in triage, and says nothing about the compiler")
        return Exit.ENVIRONMENT


def exit_of(probes: Sequence[Probe]) -> Exit:
    """What a set of probes ends with: a failure found outweighs everything, then bad recipes, then the environment;
    inconclusive when there was nothing that could be tested.
    """
    statuses = [status_of(probe) for probe in probes]
    causes = {probe.outcome.cause for probe in probes if isinstance(probe.outcome, Untestable)}
    if Status.FAILED in statuses:
        return Exit.FOUND
    if Cause.RECIPE in causes:
        return Exit.USAGE
    if causes & {Cause.ENVIRONMENT, Cause.TOOLCHAIN}:
        return Exit.ENVIRONMENT
    if statuses and all(status is Status.UNTESTABLE for status in statuses):
        return Exit.INCONCLUSIVE
    return Exit.OK
