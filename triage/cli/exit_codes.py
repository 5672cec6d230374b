"""Exit codes: what each means, and how results and errors become one. `triage --help`
prints this table.

Every error ends in a message on stderr, never in a traceback that a CI job takes for a
regression.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from enum import IntEnum
from typing import Any, get_type_hints

import typer

from triage.cli.screen import print_stderr
from triage.model.errors import BadFiles, Interrupted, TriageError
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


def command(function: Callable[..., Exit]) -> Callable[..., None]:
    """Make a function a command: end with the exit code that it returns, and print its
    errors.

    A parameter that is a dataclass of `options` stands for the options that are its
    fields, and `app` for the options of the program.
    """
    parameters = _parameters(function)
    groups = {
        name: _parameters(parameter.annotation)
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation) and name != "app"
    }
    shown = {name: one for name, one in parameters.items() if name not in groups}
    for fields in groups.values():
        shown |= fields
    shown.pop("app", None)

    @functools.wraps(function)
    def run(context: typer.Context, **given: Any) -> None:
        given["app"] = context.obj
        for name, fields in groups.items():
            group = parameters[name].annotation
            given[name] = group(**{field: given[field] for field in fields})
        values = {name: given[name] for name in parameters}
        is_journalled = given.get("interactive", False)
        raise typer.Exit(_exit_code(lambda: function(**values), is_journalled))

    keyword = inspect.Parameter.KEYWORD_ONLY
    first = inspect.Parameter("context", keyword, annotation=typer.Context)
    run.__annotations__ = {}  # typer prefers these
    run.__signature__ = inspect.Signature([first, *shown.values()])  # type: ignore[attr-defined]
    return run


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, or the fields of a dataclass."""
    hints = get_type_hints(function, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {
        name: parameter.replace(kind=keyword, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    }


def command_again(*more: str) -> str:
    """Return the command line of this run with more options."""
    words = [word for word in sys.argv[1:] if word not in more]
    # what follows are paths
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["triage", *words[:end], *more, *words[end:]])


def _exit_code(call: Callable[[], Exit], is_journalled: bool) -> int:
    """Call a command and return its exit code. is_journalled: --resume continues it."""
    from triage.toolchains.home import disk_errors

    try:
        with disk_errors("continue"):
            code = call()
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python complains when it closes
        # the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (KeyboardInterrupt, Interrupted):
        again = command_again("--resume") if is_journalled else command_again()
        print_stderr(f"stopped; finished work is cached. To continue:\n  {again}")
        return Exit.INTERRUPTED
    except BadFiles as error:
        for problem in error.problems:
            print_stderr(str(problem))
        return error.exit_code
    except TriageError as error:
        print_stderr(f"triage: {error}")
        return error.exit_code
    except OSError as error:
        file = f": {error.filename}" if error.filename else ""
        print_stderr(f"triage: {error.strerror or error}{file}")
        return Exit.ENVIRONMENT
    except MemoryError:
        print_stderr("triage: the system has no more memory; pass a lower --jobs")
        return Exit.ENVIRONMENT
    except Exception:
        print_stderr(traceback.format_exc())
        print_stderr(
            "triage: internal error; this is a bug in triage, not in the compiler"
        )
        return Exit.ENVIRONMENT


def exit_without_answer(causes: Iterable[Cause | None]) -> Exit:
    """Return the exit code of a command that has no answer, from the causes of its
    untestable probes.

    A recipe that cannot be used counts first, then an environment that failed;
    otherwise the command is inconclusive.
    """
    known = set(causes)
    if Cause.RECIPE in known:
        return Exit.USAGE
    if known & {Cause.ENVIRONMENT, Cause.TOOLCHAIN, Cause.INTERNAL}:
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
    code = exit_without_answer(result.cause for result in results)
    if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE}:
        return Exit.OK
    return code
