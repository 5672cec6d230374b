"""`triage bisect`, `suspects`, `attribute` and `why`: which change it was, and what a
failure is.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Literal

from triage.bisect.line import BisectRequest
from triage.bisect.releases import bisect_between, metric_request, planned_jobs
from triage.bisect.result import BisectKind
from triage.classify import classify_log, load_rules, packaged_rules
from triage.cli.cases import (
    Compiling,
    OneCase,
    ProgramTarget,
    named_family,
    one_case,
    open_engine_for,
)
from triage.cli.command import (
    CASE,
    DRY_RUN,
    RECIPES,
    REPO,
    SECONDS,
    SUITE,
    Reply,
    argument,
    command,
    duration_option,
    flag,
    option,
    report,
    toolchain_option,
)
from triage.cli.program import (
    TEXTS,
    CodeNotAllowed,
    StartedRecipe,
    program_suffixes,
)
from triage.compilers.recipe_start import NoProgramError
from triage.compilers.registry import DEFAULT_FAMILY, Families, load_cases
from triage.execution.compare import MATCHES
from triage.execution.judge import forecast
from triage.git_history.repository import Repository
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Failure, NoAnswer
from triage.model.revision import FamilyRef
from triage.report.searches import (
    attribution_document,
    bisect_document,
    suspects_document,
)
from triage.report.tables import forecast_document
from triage.toolchains.project import FILE, load_project

_WHY_SECONDS = 60.0  # after the first compile


@dataclass(kw_only=True)
class BisectedCase(ProgramTarget):
    """One case of a recipe, which a script of the user's own may test."""

    recipe: Path | None = argument(
        "RECIPE",
        "A recipe file, a program, FILE.py:KERNEL, a pasted issue, or a "
        "command line after --; not needed with --script.",
    )
    case: str | None = CASE
    suite_config: list[Path] | None = SUITE
    script: Path | None = option(
        "FILE",
        "Test each compiler with this program instead: exit code 0 is good, 125 "
        "skips, any other fails. It gets the input, and the compiler in PATH and "
        "TRIAGE_TOOLCHAIN.",
    )

    def tested_case(self, *revs: str | None) -> Case:
        """Load the case, to be tested by the script if there is one. revs: name the
        compiler of a script without a recipe.
        """
        if self.recipe is None and self.script is None:
            raise BadInput("name a recipe or a program, or a test with --script")
        case = None
        if self.recipe:
            cases = self.cases([self.recipe], self.suite_config, revs)
            case = one_case(cases, self.case)
            if self.script is None:
                return case
        script = (self.script or Path()).absolute()
        if not os.access(script, os.X_OK) or not script.is_file():
            raise BadInput(f"{self.script} is not a program: chmod +x {self.script}")
        if case is None:
            case = _case_for_file(script, _tested_family(*revs), "host")
        return replace(case, script=script, run=None, benchmarks=())


@command
def bisect(
    chosen: BisectedCase,
    compiling: Compiling,
    find: BisectKind = option(
        "regression|fix",
        "Find the change that brought the failure, or the one that fixed it.",
        default=BisectKind.REGRESSION,
    ),
    good: str | None = option(
        "REV", "Known-good revision (default: found automatically)."
    ),
    bad: str | None = option(
        "REV",
        "Known-bad revision, which fails (default: the newest; with --find fix, "
        "found automatically).",
    ),
    match: Literal["signature", "class", "family", "any"] = option(
        "signature|class|family|any",
        "Follow failures that have this in common; skip others.",
        default="signature",
    ),
    metric: str | None = option(
        "NAME[:FUNCTION]",
        "Bisect this number instead of a failure: cpu_seconds, peak_rss_mb, "
        "artifact_bytes, run_seconds, or any that `triage run` reports for the "
        "recipe; --good and --bad say which values are good. FUNCTION names the "
        "function to run.",
    ),
    above: float | None = option(
        "N",
        "Call a revision bad beyond this value (default: halfway between "
        "--good and --bad); not for run_seconds, which is a ratio to --good.",
        min=0.0,
    ),
    repo: Path | None = REPO,
    build: bool = flag(
        "--build",
        "Build commits from source if no other source has them (takes hours).",
    ),
    interactive: bool = flag(
        "--interactive/-i",
        "Show the suspects, propose each revision to test, and let you decide.",
    ),
    resume: bool = flag(
        "--resume",
        "Continue an interrupted interactive bisect; cached results are used "
        "in any case.",
    ),
    dry_run: bool = DRY_RUN,
) -> Reply:
    """Find the release that brought a failure (with --repo the commit), or with --find
    fix the one that fixed it.

    Both ends are verified, another failure is never taken for this one, and the answer
    is confirmed by probing the pair again. Without bounds: the change that led to the
    newest release's state.

    - `triage bisect recipes/cuda-matmul-f32.yaml --good 2.9.0 --bad 3.5.0`

    - `triage bisect recipes/cuda-matmul-f32.yaml --find fix --repo ~/iree`

    - `triage bisect recipes/row-sum.yaml --metric run_seconds --good 3.9.0 --bad
      3.13.0` finds where a program became slower
    """
    if metric is None and above is not None:
        raise BadInput("--above needs --metric")
    if repo:
        Repository(repo)
    before, after = find.in_order(good, bad)
    case = chosen.tested_case(before, after)
    with compiling.open(case, dry=dry_run) as engine:
        request = BisectRequest(
            engine, case, repo, kind=find, match_for=MATCHES[match], build=build
        )
        if dry_run:
            planned = forecast(engine, planned_jobs(request, before, after))
            return report(planned, forecast_document)
        with metric_request(request, before, after, metric, above, SECONDS) as request:
            if interactive:
                from triage.cli.interactive_bisect import bisect_interactively

                bisection = bisect_interactively(request, before, after, resume=resume)
            else:
                bisection = bisect_between(request, before, after)
    return report(bisection, partial(bisect_document, compiler=case.compiler))


def _tested_family(*revs: str | None) -> str:
    """Return the family of the compilers that a script tests: that of the project file,
    or of a revision such as `triton:3.1.0`.
    """
    path = Path(FILE)
    if not path.is_file():
        return named_family(*revs) or DEFAULT_FAMILY
    family = load_project(path).compiler
    if family in Families():
        return family
    return str(FamilyRef(family, recipe="script"))  # a compiler in a folder


@command
def suspects(
    chosen: ProgramTarget,
    source: Path = argument(
        "RECIPE|LOG",
        "Recipe, program, pasted issue, or log with the failure; a log is of "
        "the default compiler unless a REV names another.",
    ),
    repo: Path = option("DIR", "Clone of the compiler."),
    good: str = option("REV", "Known-good revision or commit."),
    bad: str = option("REV", "Known-bad revision or commit."),
    case: str | None = CASE,
) -> Reply:
    """Rank the commits between two revisions by how suspicious the failure makes them.
    Nothing is built.

    All failures of a log count. For a recipe or a program, its latest stored failures
    count. A text whose program cannot be run is read as a log, of IREE or of the
    compiler that a REV names (`triton:3.1.0`).

    The 20 most suspicious changes are shown; --format json lists all.
    """
    from triage.bisect.commits import rank_changes
    from triage.bisect.history import stored_failures

    programs = {*RECIPES, *program_suffixes()} - {*TEXTS}
    # a command line is not a file
    is_text = source.suffix not in programs and os.path.exists(source)  # noqa: PTH110
    failures: tuple[Failure, ...] = ()
    if is_text:
        failures = classify_log(source, packaged_rules()).failures
    try:
        about = one_case(chosen.cases([source]), case)
    except BadInput:
        # a text may hold no program, several, or one that no family reads
        if not is_text:
            raise
        about = _case_for_file(
            source,
            named_family(good, bad) or DEFAULT_FAMILY,
            chosen.backend or "",
        )
    with open_engine_for(chosen.app, [about]) as engine:
        failures = (*stored_failures(engine, about), *failures)
        request = BisectRequest(engine, about, repo)
        ranked = rank_changes(request, good, bad, failures)
    return report(ranked, suspects_document)


def _case_for_file(file: Path, family: str, backend: str) -> Case:
    """Return the case of a log or a script, of which nothing is known but its
    compiler.
    """
    name = file.stem
    program = Input(file.absolute(), InputKind.OTHER)
    return Case(name, name, "", family, file, program, Target(backend))


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
    from triage.investigate.explainer import Explainer
    from triage.report.searches import why_document

    begin = time.monotonic()
    if os.path.isdir(chosen.recipe):  # noqa: PTH112 - false for a long command line
        raise BadInput(f"{chosen.recipe} is a folder: name a recipe or a program")
    try:
        started = chosen.write_recipe(chosen.recipe, [toolchain])
    except NoProgramError as error:
        if not error.text:  # it is a command line
            raise
        return _explain_without_run(chosen, error, error.text)
    cases = load_cases([started.path if started else chosen.recipe])
    case = one_case(cases, chosen.case) if chosen.case else cases[0]
    with open_engine_for(chosen.app, cases) as engine:
        explainer = Explainer(
            engine,
            case,
            cases,
            _command_words(chosen, case, started),
            toolchain,
            begin + (budget or _WHY_SECONDS),
            started.start.reported if started and started.is_pasted else None,
            started.text if started else "",
        )
        try:
            explanation = explainer.explain()
        except BadInput as error:
            if started is None or not started.is_pasted:
                raise
            return _explain_without_run(chosen, error, started.text)
    if started:
        explanation.assumed = started.assumed
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


def _explain_without_run(chosen: OneCase, error: BadInput, text: str) -> Reply:
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
    good: str = option("REV", "Known-good revision, which compiles."),
    bad: str = option("REV", "Known-bad revision, which fails."),
) -> Reply:
    """Find the pass after which the IR of two compilers diverges.

    The comparison covers operations, types, nesting and chosen tile sizes. It ignores
    names, order, other attributes and spellings of versions. Constants and other
    attributes are compared when the bad revision compiles the program and nothing else
    differs.

    - `triage attribute recipes/cuda-matmul-f32.yaml --good 3.0.0 --bad 3.1.0`
    """
    from triage.attribute.divergence import attribute

    case = chosen.selected_case()
    with open_engine_for(chosen.app, [case]) as engine:
        old = engine.registry.resolve(good, case.compiler)
        new = engine.registry.resolve(bad, case.compiler)
        attribution = attribute(engine, case, old, new)
    return report(attribution, attribution_document)
