"""`triage why` and `triage attribute`: what a failure is, and where it comes from."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triage.classify import load_rules
from triage.cli.classify import classified
from triage.cli.context import one_case, open_engine_for
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    FormatOption,
    OneCase,
    clone_option,
    duration_option,
    rev_option,
)
from triage.cli.program import CodeNotAllowed
from triage.cli.screen import AppContext
from triage.compilers.recipe_start import NoProgramError
from triage.model.errors import BadInput
from triage.model.outcome import Cause, NoAnswer
from triage.report.attribution import attribution_document
from triage.report.document import plain_text
from triage.report.formats import write_report

if TYPE_CHECKING:
    from triage.cli.program import StartedRecipe
    from triage.investigate.explanation import Explanation
    from triage.model.case import Case
    from triage.model.progress import Progress

_BUDGET = 60.0  # seconds


@command
def why(
    app: AppContext,
    chosen: OneCase,
    toolchain: Annotated[
        str | None,
        rev_option(
            "Explain the failure on this toolchain (default: the newest release "
            "that fails).",
            "--toolchain",
            "-t",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        duration_option(
            "Spend at most this long after the first compile (default: 60s)."
        ),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Explain one failure: how and where it fails, since which release, after which
    pass, and what works around it.

    Every step is that of another command: `bisect` over releases, `attribute` and
    `remedy`. What nobody named, such as the backend, is assumed, and the answer says
    so. If a text has no whole program, such as a CI log, the answer says why nothing
    can be run, and what the text alone tells.

    Exit 1 when a failure is found, also one that a newer release fixed; 0 when no
    release that was tried fails; 3 when nothing could be run, or when the failure that
    a text reports was not seen.

    - `triage why model.mlir --backend rocm --chip gfx942`

    - `triage why recipes/cuda-matmul-f32.yaml -t 3.3.0`

    - `triage why -- iree-compile model.mlir --iree-hal-target-backends=rocm`
    """
    from triage.investigate.explanation import Explainer
    from triage.report.attribution import why_document

    started = time.monotonic()
    try:
        cases, made = chosen.load_started()
    except NoProgramError as error:
        if not chosen.recipe.is_file():  # standard input is read
            raise
        return _answer_from_text(app, chosen, error, output)
    case = one_case(cases, chosen.case) if chosen.case else cases[0]
    with open_engine_for(app, cases) as engine:
        if case is not cases[-1] and not chosen.case:
            engine.progress.note(
                f"{case.name}, the first of {len(cases)} cases; --case chooses "
                "another one"
            )
        explainer = Explainer(
            engine,
            case,
            cases,
            _command_words(chosen, case, made),
            toolchain,
            _BUDGET if budget is None else budget,
            started,
            made.assumed if made else (),
            made.reported if made and made.is_pasted else None,
        )
        steps = explainer.explain()
        try:
            first = next(steps)
        except BadInput as error:
            if made is None or not made.is_pasted:
                raise
            return _answer_from_text(app, chosen, error, output)
        found = _note_steps(chain((first,), steps), engine.progress)
    write_report(output, found, why_document)
    # a program that no release reads is the user's mistake
    if found.status == "inconclusive":
        if found.is_unreadable:
            return Exit.USAGE
        return exit_without_answer([found.cause])
    if found.failure:
        return Exit.FOUND
    return Exit.OK


def _command_words(
    chosen: OneCase, case: Case, made: StartedRecipe | None
) -> list[str]:
    """Return what names the case on a command line."""
    words = chosen.program.words(chosen.recipe, made)
    matrix = case.name.partition("[")[2].rstrip("]")
    if matrix:
        words += ["--case", matrix]
    for config in chosen.suite_config or ():
        words += ["--suite-config", str(config)]
    return words


def _note_steps(steps: Iterable[Explanation], progress: Progress) -> Explanation:
    """Note what each step adds, and return what is known in the end."""
    from triage.report.attribution import headline, why_facts

    shown: set[str] = set()
    for found in steps:
        facts = [
            f"{name}: {plain_text(text)}" for name, text in why_facts(found) if name
        ]
        for line in (headline(found), *facts):
            if line not in shown:
                progress.note(line)
            shown.add(line)
    return found


def _answer_from_text(
    app: AppContext, chosen: OneCase, error: BadInput, output: str
) -> Exit:
    """Say why the program of a text cannot be run, the command that helps, and what the
    text alone says.
    """
    from triage.investigate.explanation import Explanation
    from triage.report.attribution import why_document

    path = chosen.recipe
    with app.progress() as progress:
        [log] = classified(progress, [path], load_rules([]))
    words = ["PROGRAM", "--backend", chosen.program.backend or "BACKEND"]
    if isinstance(error, CodeNotAllowed):
        words = [str(path), "--run-code"]
    elif not isinstance(error, NoProgramError):
        words = [str(path), "-t", "path:DIR"]
    line = shlex.join(["triage", "why", *words])
    why = NoAnswer(Cause.NOT_FOUND, str(error))
    found = Explanation(str(path), log=log, unanswered=why, next=(line,))
    write_report(output, found, why_document)
    return Exit.INCONCLUSIVE


@command
def attribute_case(
    app: AppContext,
    chosen: OneCase,
    good: Annotated[str, rev_option("Known-good revision, which compiles.")],
    bad: Annotated[str, rev_option("Known-bad revision, which fails.")],
    repo: Annotated[
        Path | None,
        clone_option(
            "Find the source files of the pass in this clone of the compiler."
        ),
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Find the pass after which the IR of two compilers diverges.

    The comparison covers operations, types, nesting and chosen tile sizes. It ignores
    names, order, other attributes and spellings of versions. Constants and other
    attributes are compared when the bad revision compiles the program and nothing else
    differs.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0 --repo
      ~/iree`
    """
    from triage.attribute.divergence import AttributionRequest, attribute
    from triage.attribute.result import ComparisonResult
    from triage.git_history.repository import Repository

    case = chosen.load()
    clone = Repository(repo) if repo else None
    with open_engine_for(app, [case]) as engine:
        ends = (
            engine.registry.resolve(good, case.compiler),
            engine.registry.resolve(bad, case.compiler),
        )
        found = attribute(engine, AttributionRequest(case, *ends, clone))
    write_report(output, found, attribution_document)
    if found.status is not ComparisonResult.INCONCLUSIVE:
        return Exit.OK
    return exit_without_answer([found.cause])
