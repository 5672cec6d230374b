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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import IntEnum
from typing import Any, get_type_hints

import typer

from triage.cli.screen import AppContext, print_stderr
from triage.model.errors import BadFiles, Interrupted, TriageError
from triage.model.outcome import Cause, Status
from triage.model.probe_result import ProbeResult
from triage.report.printable import printed_streams


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
    fields, and one of the type AppContext for the options of the program.
    """
    signature = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def run(context: typer.Context, **given: Any) -> None:
        values = {
            name: _value(name, one.annotation, given, context.obj)
            for name, one in signature.parameters.items()
        }
        with printed_streams():
            code = int(
                _exit_code(
                    lambda: function(**values), may_resume=given.get("resume") is False
                )
            )
        raise typer.Exit(code)

    shown = [
        inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
    ]
    for parameter in signature.parameters.values():
        shown.extend(_options(parameter))
    run.__annotations__ = {}  # typer prefers these
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    kind: type[Any] = parameter.annotation
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        for name, field in (
            inspect.signature(kind).parameters.items() if kind is not AppContext else ()
        ):
            yield from _options(field.replace(annotation=hints[name]))
    else:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _value(
    name: str, kind: type[Any], given: Mapping[str, Any], app: AppContext
) -> Any:
    if kind is AppContext:
        return app
    if is_dataclass(kind):
        return kind(
            **{
                field: _value(field, hint, given, app)
                for field, hint in get_type_hints(kind).items()
            }
        )
    return given[name]


def command_again(*more: str) -> str:
    """Return the command line of this run with more options."""
    words = [word for word in sys.argv[1:] if word not in more]
    # what follows are paths
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["triage", *words[:end], *more, *words[end:]])


def _exit_code(call: Callable[[], Exit], *, may_resume: bool) -> int:
    """Call a command and return its exit code. may_resume: --resume continues it after
    an interruption.
    """
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
        again = command_again(*["--resume"] * may_resume)
        print_stderr(f"stopped; finished work is cached. To continue:\n  {again}")
        return Exit.INTERRUPTED
    except BadFiles as error:
        for problem in error.problems:
            print_stderr(str(problem))
        print_stderr(
            f"{len(error.problems)} problem{'' if len(error.problems) == 1 else 's'}; "
            "nothing was run"
        )
        return error.exit_code
    except TriageError as error:
        print_stderr(f"triage: {error}")
        return error.exit_code
    except OSError as error:
        print_stderr(
            f"triage: {error.strerror or error}"
            f"{f': {error.filename}' if error.filename else ''}"
        )
        return Exit.ENVIRONMENT
    except Exception as error:
        if isinstance(error, MemoryError) or (
            isinstance(error, RuntimeError) and "start new thread" in str(error)
        ):
            print_stderr(
                f"triage: the system has no more memory or threads: {error}; pass a "
                "lower --jobs or end other programs"
            )
        else:
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


def exit_for_results(results: Iterable[ProbeResult]) -> Exit:
    """Return FOUND for an unexpected failure, else the reason why some could not be
    tested, else OK.
    """
    results = list(results)
    statuses = {result.status for result in results}
    if Status.FAILED in statuses:
        return Exit.FOUND
    causes = [result.cause for result in results if result.cause is not None]
    code = exit_without_answer(causes)
    if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE}:
        return Exit.OK
    return code
