"""`triage why` and `triage attribute`: what a failure is, and where it comes from."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from triage.classify import classify_log, load_rules
from triage.cli.cases import OneCase, cases_in, one_case, open_engine_for
from triage.cli.command import (
    REQUIRED,
    Reply,
    command,
    duration_option,
    option,
    report,
    toolchain_option,
)
from triage.cli.program import CodeNotAllowed
from triage.compilers.recipe_start import NoProgramError
from triage.model.errors import BadInput
from triage.model.outcome import Cause, NoAnswer
from triage.report.searches import attribution_document

if TYPE_CHECKING:
    from triage.cli.program import StartedRecipe
    from triage.model.case import Case

_BUDGET = 60.0  # seconds


@command
def why(
    chosen: OneCase,
    toolchain: str | None = toolchain_option(
        "Explain the failure on this toolchain (default: the newest release "
        "that fails)."
    ),
    budget: float | None = duration_option(
        "Spend at most this long after the first compile (default: 60s)."
    ),
) -> Reply:
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
    from triage.investigate.investigation import Explainer
    from triage.report.searches import why_document

    begin = time.monotonic()
    if chosen.recipe.is_dir():
        raise BadInput(f"{chosen.recipe} is a folder: name a recipe or a program")
    try:
        started = chosen.started([chosen.recipe], [toolchain]).get(chosen.recipe)
    except NoProgramError as error:
        if not error.text:  # it is a command line
            raise
        return _reply_from_text(chosen, error, error.text)
    cases = cases_in([started.path if started else chosen.recipe])
    case = one_case(cases, chosen.case) if chosen.case else cases[0]
    with open_engine_for(chosen.app, cases) as engine:
        explainer = Explainer(
            engine,
            case,
            cases,
            _command_words(chosen, case, started),
            toolchain,
            _BUDGET if budget is None else budget,
            begin,
            started.assumed if started else (),
            started.start.reported if started and started.is_pasted else None,
            started.text if started else "",
        )
        try:
            explanation = explainer.explain()
        except BadInput as error:
            if started is None or not started.is_pasted:
                raise
            return _reply_from_text(chosen, error, started.text)
    return report(explanation, why_document)


def _command_words(
    chosen: OneCase, case: Case, started: StartedRecipe | None
) -> list[str]:
    """Return what names the case on a command line."""
    # nobody can type standard input again, and only a revision named the packages
    if started and (str(chosen.recipe) == "-" or "package" in started.start.keys):
        return [str(started.path)]
    matrix = case.name.partition("[")[2].rstrip("]")
    words = [str(chosen.recipe)]
    if chosen.app.run_code:
        words.append("--run-code")
    options = {"backend": chosen.backend, "chip": chosen.chip, "case": matrix}
    for name, value in options.items():
        if value:
            words += [f"--{name}", value]
    return words


def _reply_from_text(chosen: OneCase, error: BadInput, text: str) -> Reply:
    """Say why the program of a text cannot be run, the command that helps, and what the
    text alone says.
    """
    from triage.investigate.result import Explanation
    from triage.report.searches import why_document

    path = chosen.recipe
    log = classify_log(BytesIO(text.encode("utf-8", "replace")), load_rules([]))
    log = replace(log, log=str(path))
    words = [str(path), "-t", "path:DIR"]
    if isinstance(error, CodeNotAllowed):
        words = [str(path), "--run-code"]
    elif isinstance(error, NoProgramError):
        words = ["PROGRAM", "--backend", chosen.backend or "BACKEND"]
    line = shlex.join(["triage", "why", *words])
    why = NoAnswer(Cause.NOT_FOUND, str(error))
    explanation = Explanation(str(path), log=log, unanswered=why, next=(line,))
    return report(explanation, why_document)


@command
def attribute_case(
    chosen: OneCase,
    good: str = option("REV", "Known-good revision, which compiles.", default=REQUIRED),
    bad: str = option("REV", "Known-bad revision, which fails.", default=REQUIRED),
) -> Reply:
    """Find the pass after which the IR of two compilers diverges.

    The comparison covers operations, types, nesting and chosen tile sizes. It ignores
    names, order, other attributes and spellings of versions. Constants and other
    attributes are compared when the bad revision compiles the program and nothing else
    differs.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0`
    """
    from triage.attribute.divergence import AttributionRequest, attribute

    case = chosen.selected_case()
    with open_engine_for(chosen.app, [case]) as engine:
        old = engine.registry.resolve(good, case.compiler)
        new = engine.registry.resolve(bad, case.compiler)
        attribution = attribute(engine, AttributionRequest(case, old, new))
    return report(attribution, attribution_document)
