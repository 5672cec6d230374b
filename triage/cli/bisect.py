"""`triage bisect`, `triage history` and `triage suspects`: what changed between
revisions, and which change it was.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from triage.bisect.belief import confirmations
from triage.bisect.candidates import CommitCandidates
from triage.bisect.history import Histories, History, histories
from triage.bisect.metric import measuring
from triage.bisect.plan import bisect_between, candidates_of, compilers_at
from triage.bisect.recorded_pair import RecordedPair
from triage.bisect.result import CONFIDENCE, Answer, Bisection, BisectKind
from triage.bisect.search import BisectRequest
from triage.bisect.suspects import rank_changes
from triage.bisect.two_repositories import ModelHistory, bisect_two
from triage.classify import classify_log, packaged_rules
from triage.cli.context import (
    cases_in,
    one_case,
    open_runner,
    select_one_family,
    show_forecast,
)
from triage.cli.exit_codes import Exit, command, exit_for_results, exit_without_answer
from triage.cli.interactive_bisect import prompt
from triage.cli.options import (
    RECIPES,
    SECONDS,
    Compiling,
    FailureMatch,
    ForecastOption,
    FormatOption,
    FreshOption,
    OneCaseOption,
    OneCaseOrScript,
    ProgramOptions,
    ProjectOption,
    RepoOption,
    SeveralCases,
    TrustOption,
    argument,
    clone_option,
    flag,
    match_by,
    option,
    rev_option,
)
from triage.cli.program import TEXTS
from triage.cli.screen import AppContext
from triage.compilers.family_ref import FamilyRef
from triage.compilers.registry import DEFAULT_FAMILY, Families, recipe_families
from triage.execution.engine import Engine
from triage.execution.own_program import case_with_own_program
from triage.execution.results import Forecast, forecast
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Failed, Failure
from triage.report.bisection import (
    bisect_document,
    history_document,
    suspects_document,
    two_repositories_document,
)
from triage.report.formats import write_report
from triage.report.tables import forecast_document
from triage.toolchains.home import default_home
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources.project import FILE, load_project

T = TypeVar("T")


@command
def bisect(
    named: OneCaseOrScript,
    compiling: Compiling,
    find: Annotated[
        BisectKind,
        option(
            "Find the change that brought the failure, or the one that fixed it.",
            metavar=None,
        ),
    ] = BisectKind.REGRESSION,
    match: Annotated[
        FailureMatch,
        option(
            "Compare failures by this; revisions with another failure are skipped.",
            metavar=None,
        ),
    ] = FailureMatch.SIGNATURE,
    metric: Annotated[
        str | None,
        option(
            "Bisect this number instead of a failure: cpu_seconds, peak_rss_mb, "
            "artifact_bytes, run_seconds, or any that `triage run` reports for the "
            "recipe; --good and --bad say which values are good. FUNCTION: the one to "
            "run.",
            metavar="NAME[:FUNCTION]",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        option(
            (
                "Number beyond which a revision is bad; for run_seconds a ratio to "
                "the good end (default: in between)."
            ),
            least=0.0,
        ),
    ] = None,
    good: Annotated[
        str | None,
        option("Known-good revision, which compiles (default: found automatically)."),
    ] = None,
    bad: Annotated[
        str | None,
        option(
            "Known-bad revision, which fails (default: the newest; with --find fix, "
            "found automatically)."
        ),
    ] = None,
    repo: RepoOption = None,
    model: Annotated[
        str | None,
        option(
            (
                "Clone that holds RECIPE, and two commits of it: find out whether the "
                "compiler or the model changed."
            ),
            metavar="DIR@GOOD..BAD",
        ),
    ] = None,
    project: ProjectOption = None,
    build: Annotated[
        bool,
        flag(
            "Build commits from source where nothing else has their compiler (hours).",
            "--build",
        ),
    ] = False,
    confidence: Annotated[
        float,
        option(
            "Stop when the culprit's posterior probability reaches this.",
            least=0.5,
            most=1.0,
        ),
    ] = CONFIDENCE,
    trust: TrustOption = False,
    interactive: Annotated[
        bool,
        flag(
            "Show the suspects and propose each revision to test; you decide.",
            "--interactive",
            "-i",
        ),
    ] = False,
    resume: Annotated[
        bool,
        flag(
            (
                "Continue an interrupted interactive bisect; cached results are used "
                "in any case."
            ),
            "--resume",
        ),
    ] = False,
    verify: Annotated[
        Path | None,
        option(
            "Repeat only the deciding pair of an answer that --format json printed.",
            metavar="FILE",
        ),
    ] = None,
    dry_run: ForecastOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Find the release that brought a failure (with --repo the commit), or with --find
    fix the one that fixed it.

    Both ends are verified, another failure is never taken for this one, and the answer
    is confirmed by probing the pair again. Without bounds: the change that led to the
    newest release's state.

    - `triage bisect recipes/cuda-matmul-f32.yaml --good 2.9.0 --bad 3.5.0`

    - `triage bisect recipes/cuda-matmul-f32.yaml --find fix --repo ~/iree`

    - `triage bisect recipes/row-sum.yaml --metric run_seconds --good 3.9.0 --bad
      3.13.0` finds where a program became slower

    - `triage bisect models/llama.yaml --good 3.2.0 --bad 3.3.0 --model .@v1..main`
    """
    if model and (metric or interactive or dry_run):
        raise BadInput("--model does not work with --metric, --interactive, --dry-run")
    if metric is None and threshold is not None:
        raise BadInput("--threshold needs --metric")
    before, after = _in_order(find, good, bad)
    recorded = None
    if verify:
        if good or bad or model or metric or interactive:
            raise BadInput(
                "--verify takes its revisions from the file, and no --metric"
            )
        recorded = RecordedPair.read(verify)
        find, before, after = recorded.kind, recorded.before, recorded.after
    if model and (named.script or named.recipe is None):
        raise BadInput("--model needs a recipe, and does not work with --script")
    if model and named.recipe:
        models = _model_history(named.recipe, named.case, model, find)
    else:
        models = None
    if models:
        chosen = models.at(models.ends[1])
    else:
        chosen = named.load_for(lambda: _tested_family(project, good, bad))
    with compiling.open(chosen, trust=trust) as engine:
        request = BisectRequest(
            engine,
            chosen,
            repo,
            project,
            find,
            match_by(match),
            confidence,
            metric is None,
            build,
            _asked,
        )
        if dry_run:
            write_report(output, _forecast(request, before, after), forecast_document)
            return Exit.OK
        if models:
            if before is None or after is None:
                raise BadInput(
                    "--model needs --good and --bad as well; for a compiler that "
                    "stays name the same one twice"
                )
            both = bisect_two(request, models, before, after)
            write_report(
                output,
                both,
                partial(two_repositories_document, compiler=chosen.compiler),
            )
            return _exit_of(both.bisections)
        with (
            _measuring(request, before, after, metric, threshold)
            if metric
            else nullcontext(request) as request
        ):
            if interactive:
                found = prompt(request, before, after, resume=resume)
            else:
                found = bisect_between(request, before, after)
    if recorded:
        found = recorded.compare(found)
    no_ends = (
        found.status is Answer.INCONCLUSIVE
        and found.cause is Cause.NOT_FOUND
        and found.failure is None
    )
    no_ends &= repo is None and bool(good or bad or find is BisectKind.FIX)
    # name the command that finds them
    if no_ends and not _always_fails(engine, chosen, found, before):
        words = [
            "triage",
            "bisect",
            *map(str, filter(None, [named.recipe])),
            *(["--script", str(named.script)] if named.script else []),
            *(["--case", chosen.name] if chosen.matrix else []),
        ]
        found = replace(found, command=shlex.join(words))
    write_report(output, found, partial(bisect_document, compiler=chosen.compiler))
    return _exit_of([found])


def _always_fails(
    engine: Engine, case: Case, found: Bisection, before: str | None
) -> bool:
    """Return whether there is no older release that might compile a case that fails at
    both ends.
    """
    oldest = engine.registry.releases(case.compiler)[0].revision.name
    return "it fails at both ends" in (found.reason or "") and before in (None, oldest)


def _tested_family(project: Path | None, *revs: str | None) -> str:
    """Return the family of the compilers that a script tests: that of the project file,
    or of a revision such as `triton:3.1.0`.
    """
    own = Path(FILE)
    if project is None and not own.is_file():
        return _named_family(*revs)
    family = load_project(project or own).compiler
    if family in Families():
        return family
    return str(FamilyRef(family, recipe="script"))  # a compiler in a folder


def _named_family(*revs: str | None) -> str:
    return next(
        (
            name
            for name in Families()
            if any(rev and rev.startswith(f"{name}:") for rev in revs)
        ),
        DEFAULT_FAMILY,
    )


def _in_order(kind: BisectKind, good: T, bad: T) -> tuple[T, T]:
    """Return the older one first; also the other way round."""
    if kind is BisectKind.REGRESSION:
        return (good, bad)
    return (bad, good)


def _asked(cost: str) -> bool:
    return not (sys.stdin.isatty() and sys.stderr.isatty()) or typer.confirm(
        f"{cost}. Go on?", default=True, err=True
    )


def _exit_of(bisections: Sequence[Bisection]) -> Exit:
    if all(bisection.status is Answer.CULPRIT for bisection in bisections):
        return Exit.OK
    return exit_without_answer(bisection.cause for bisection in bisections)


def _model_history(
    recipe: Path, name: str | None, model: str, kind: BisectKind
) -> ModelHistory:
    """Open the history of a model that DIR@GOOD..BAD names. name: of the case."""
    folder, at, refs = model.rpartition("@")
    good, dots, bad = refs.partition("..")
    if not (at and good and dots and bad):
        raise BadInput(
            f"--model {model}: write DIR@GOOD..BAD, such as ~/models@v1.4..main"
        )
    repository = Repository(Path(folder).expanduser())
    ends = _in_order(kind, repository.resolve(good), repository.resolve(bad))
    return ModelHistory(
        repository,
        recipe,
        default_home(),
        lambda path: one_case(cases_in([path]), name),
        ends,
    )


def _forecast(
    request: BisectRequest, before: str | None, after: str | None
) -> Forecast:
    """Return which candidates are known and how many probes the bisect makes at
    most.
    """
    found = candidates_of(request, before, after)
    again = 2 * confirmations(request.confidence)
    if isinstance(found, CommitCandidates):
        return Forecast([], found.most_builds + again, found.cost)
    jobs = [ProbeJob(request.case, candidate.ref) for candidate in found.candidates]
    # If the ends are not named, up to three changes are confirmed: where it broke,
    # changed and went.
    if before and after:
        pairs = 1
    else:
        pairs = 3
    if pairs == 1:
        what = "confirm the pair around the change"
    else:
        what = "confirm the pairs around up to three changes"
    return forecast(
        request.engine,
        jobs,
        more=again * pairs,
        remark=f"that includes {again * pairs} to {what}",
    )


@contextmanager
def _measuring(
    request: BisectRequest,
    before: str | None,
    after: str | None,
    text: str,
    threshold: float | None,
) -> Iterator[BisectRequest]:
    """Yield the request with a engine for which a number beyond the threshold is a
    failure. text: NAME[:FUNCTION].
    """
    if before is None or after is None:
        raise BadInput(
            "--metric needs both --good and --bad: they say which values are good and "
            "which are bad"
        )
    ends = _in_order(request.kind, *compilers_at(request, before, after))
    with measuring(
        request.engine, request.case, ends, text, SECONDS, threshold
    ) as judging:
        yield replace(request, engine=judging)


_SHARE = 0.5  # of all compiles, the most that a history spends


@command
def history(
    chosen: SeveralCases,
    compiling: Compiling,
    since: Annotated[
        str | None, rev_option("Oldest release (default: the first).")
    ] = None,
    until: Annotated[
        str | None, rev_option("Newest release (default: the last).")
    ] = None,
    every: Annotated[
        bool, flag("Compile on every release, so that no change is missed.", "--every")
    ] = False,
    fresh: FreshOption = False,
    dry_run: ForecastOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Find every change of each case's status across releases.

    Without --every, most releases between two with the same status are not compiled, so
    a short window of failures can be missed. Releases where other cases change and
    those that a recipe's `expect` names are compiled first.
    """
    cases = chosen.load()
    found: list[History] = []
    planned: list[ProbeJob] = []
    with compiling.open(*cases, fresh=fresh) as engine:
        bounds = [rev for rev in (since, until) if rev]
        if bounds:
            bounded = [select_one_family(cases, bounds, "history").family]
        else:
            bounded = []
        for family in bounded or dict.fromkeys(case.compiler for case in cases):
            refs = engine.registry.between(family, since, until)
            family_cases = [case for case in cases if case.compiler == family]
            if dry_run:
                planned += [
                    ProbeJob(case, ref, fresh) for case in family_cases for ref in refs
                ]
                continue
            if every:
                share = 1.0
            else:
                share = _SHARE
            found += histories(engine, family_cases, refs, share=share)
            own = [
                _with_own_program(engine, one, refs)
                for one in found
                if one.about in family_cases
            ]
            found += histories(
                engine, [case for case in own if case], refs, share=share
            )
        if dry_run:
            if every:
                what = None
            else:
                what = "most releases between two with the same status are left out"
            return show_forecast(output, engine, planned, what)
    write_report(output, Histories(found), history_document)
    code = exit_for_results(one for history in found for one in history.results)
    if code in (Exit.FOUND, Exit.INCONCLUSIVE):
        return Exit.OK
    return code


def _with_own_program(
    engine: Engine, history: History, refs: Sequence[ToolchainRef]
) -> Case | None:
    tried = [ref for ref in refs if ref.revision.name in history.statuses]
    return case_with_own_program(engine, history.about, tried, history.results)


@command
def suspects(
    app: AppContext,
    source: Annotated[
        Path,
        argument(
            "RECIPE|LOG",
            (
                "Recipe, program, pasted issue, or log with the failure; a log is of "
                "the default compiler unless a REV names another."
            ),
        ),
    ],
    repo: Annotated[Path, clone_option("Clone of the compiler.")],
    good: Annotated[str, option("Known-good revision or commit.")],
    bad: Annotated[str, option("Known-bad revision or commit.")],
    program: ProgramOptions,
    case: OneCaseOption = None,
    project: ProjectOption = None,
    output: FormatOption = "text",
) -> Exit:
    """Rank the commits between two revisions by how suspicious the failure makes them.
    Nothing is built.

    All failures of a log count. For a recipe or a program, they are those that were
    found last. A text whose program cannot be run is read as a log, of IREE or of the
    compiler that a REV names (`triton:3.1.0`).

    Commits of the good revision's branch that the bad one lacks, also as cherry-picks,
    are ranked, too: a fix may be missing. For a recipe or a program, the passes of both
    compilers are compared if they are installed. Commits that change the pass after
    which the two first differ are then more suspicious, as are those that change which
    passes run. The 20 most suspicious changes are shown, all of them with --verbose.
    """
    failures: tuple[Failure, ...] = ()
    chosen = _case_to_run(program, source, case)
    if _is_read_as_text(source):
        failures = classify_log(source, packaged_rules()).failures
    has_program = chosen is not None
    if chosen is None:
        chosen = _log_case(source, program.backend, _named_family(good, bad))
    with open_runner(app, [chosen]) as engine:
        if has_program:
            failures = (*_last_failures(engine, chosen), *failures)
        ranked = rank_changes(
            BisectRequest(engine, chosen, repo, project, attribute=has_program),
            good,
            bad,
            failures,
        )
    write_report(output, ranked, suspects_document)
    return Exit.OK


def _is_read_as_text(source: Path) -> bool:
    """Return whether a file is a log or an issue, not a program that a family reads."""
    if source.suffix in TEXTS:
        return True
    families = recipe_families().values()
    known = (*RECIPES, *(suffix for family in families for suffix in family.inputs))
    return source.suffix not in known


def _case_to_run(
    program: ProgramOptions, source: Path, name: str | None
) -> Case | None:
    """Return the case of a recipe, of a program, or of the program in a text.

    None for a text that has no program that can be run.
    """
    is_text = _is_read_as_text(source)
    if is_text and source.suffix not in TEXTS:
        return None
    try:
        recipes = program.recipes([source])
    except BadInput:
        # a text may hold no program, several, or one that no family reads
        if program.save or not is_text:
            raise
        return None
    return one_case(cases_in(recipes), name)


def _last_failures(engine: Engine, case: Case) -> tuple[Failure, ...]:
    """Return the latest stored failures of the case.

    Names of cases are not unique, so its runs are found by content.
    """
    for name in (record.toolchain for record in engine.cache.newest_of(case.name)):
        try:
            ref = engine.registry.resolve(name, case.compiler)
            if not engine.registry.is_installed(ref):
                continue
            probe = engine.known_on(case, engine.registry.obtain(ref))
        except (BadInput, EnvironmentFailure):
            continue  # a toolchain that no longer exists
        if probe and isinstance(probe.outcome, Failed):
            return (probe.outcome.failure, *probe.outcome.others)
    return ()


def _log_case(log: Path, backend: str | None, compiler: str) -> Case:
    """Return what is known of the case of a log: nothing but its compiler."""
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or ""))
