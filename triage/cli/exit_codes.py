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

from triage.cli.other_words import with_words_here
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
            name: _value_of(name, one.annotation, given, context.obj)
            for name, one in signature.parameters.items()
        }
        may_resume = given.get("resume") is False
        with printed_streams():
            code = _exit_code(lambda: function(**values), may_resume=may_resume)
        raise typer.Exit(int(code))

    context = inspect.Parameter(
        "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
    )
    shown = [context]
    for parameter in signature.parameters.values():
        shown.extend(_options_of(parameter))
    run.__annotations__ = {}  # typer prefers these
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


def _options_of(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the options for a parameter: itself, or the fields of its dataclass."""
    kind: type[Any] = parameter.annotation
    if kind is AppContext:
        return
    if not is_dataclass(kind):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(kind, include_extras=True)
    for name, field in inspect.signature(kind).parameters.items():
        yield from _options_of(field.replace(annotation=hints[name]))


def _value_of(
    name: str, kind: type[Any], given: Mapping[str, Any], app: AppContext
) -> Any:
    """Return the value of a parameter from the options that were given."""
    if kind is AppContext:
        return app
    if not is_dataclass(kind):
        return given[name]
    hints = get_type_hints(kind)
    fields = {field: _value_of(field, hints[field], given, app) for field in hints}
    return kind(**fields)


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
        again = command_again("--resume") if may_resume else command_again()
        print_stderr(f"stopped; finished work is cached. To continue:\n  {again}")
        return Exit.INTERRUPTED
    except BadFiles as error:
        for problem in error.problems:
            print_stderr(with_words_here(str(problem)))
        count = len(error.problems)
        noun = "problem" if count == 1 else "problems"
        print_stderr(f"{count} {noun}; nothing was run")
        return error.exit_code
    except TriageError as error:
        print_stderr(f"triage: {with_words_here(str(error))}")
        return error.exit_code
    except OSError as error:
        file = f": {error.filename}" if error.filename else ""
        print_stderr(f"triage: {error.strerror or error}{file}")
        return Exit.ENVIRONMENT
    except Exception as error:
        no_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
        if no_thread or isinstance(error, MemoryError):
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


def exit_for_results(results: Iterable[ProbeResult], *, strict: bool = False) -> Exit:
    """Return FOUND for an unexpected failure, else the reason why some could not be
    tested, else OK. `strict`: an unexpected pass counts as a failure.
    """
    results = list(results)
    statuses = {result.status for result in results}
    if Status.FAILED in statuses or (strict and Status.XPASS in statuses):
        return Exit.FOUND
    causes = [result.cause for result in results if result.cause is not None]
    code = exit_without_answer(causes)
    if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE}:
        return Exit.OK
    return code
