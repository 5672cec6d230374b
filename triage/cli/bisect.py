"""`triage bisect` and `triage suspects`: which change it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from triage.bisect.plan import (
    bisect_between,
    commit_ends,
    compilers_at,
    releases_between,
)
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.two_repositories import ModelHistory, bisect_two, path_inside
from triage.classify import classify_log, packaged_rules
from triage.cli.context import cases_in, named_family, one_case, open_engine_for
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.interactive_bisect import prompt
from triage.cli.options import (
    RECIPES,
    SECONDS,
    Compiling,
    DryRunOption,
    FailureMatch,
    FormatOption,
    OneCaseOption,
    OneCaseOrScript,
    ProgramOptions,
    ProjectOption,
    RepoOption,
    argument,
    clone_option,
    flag,
    match_by,
    option,
)
from triage.cli.program import TEXTS
from triage.cli.screen import AppContext
from triage.compilers.registry import Families, recipe_families
from triage.execution.engine import Engine
from triage.execution.number_judge import MetricChoice, engine_with_judge
from triage.execution.results import Forecast, forecast
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failed, Failure, NoAnswer
from triage.model.revision import FamilyRef
from triage.report.bisection import (
    bisect_document,
    suspects_document,
    two_repositories_document,
)
from triage.report.formats import write_report
from triage.report.tables import forecast_document
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources.project import FILE, load_project

T = TypeVar("T")


@dataclass(kw_only=True)
class BisectEnds:
    """The change to find and the two revisions around it."""

    find: Annotated[
        BisectKind,
        option(
            "Find the change that brought the failure, or the one that fixed it.",
            metavar=None,
        ),
    ] = BisectKind.REGRESSION
    good: Annotated[
        str | None,
        option("Known-good revision, which compiles (default: found automatically)."),
    ] = None
    bad: Annotated[
        str | None,
        option(
            "Known-bad revision, which fails (default: the newest; with --find fix, "
            "found automatically)."
        ),
    ] = None

    @property
    def pair(self) -> tuple[str | None, str | None]:
        """The older revision and the newer one, if they are named."""
        return _in_order(self.find, self.good, self.bad)


@command
def bisect(
    named: OneCaseOrScript,
    compiling: Compiling,
    ends: BisectEnds,
    match: Annotated[
        FailureMatch,
        option(
            "Follow failures with the same signature, class or family, or any; "
            "skip others.",
            metavar=None,
        ),
    ] = FailureMatch.SIGNATURE,
    metric: Annotated[
        str | None,
        option(
            "Bisect this number instead of a failure: cpu_seconds, peak_rss_mb, "
            "artifact_bytes, run_seconds, or any that `triage run` reports for the "
            "recipe; --good and --bad say which values are good. FUNCTION names the "
            "function to run.",
            metavar="NAME[:FUNCTION]",
        ),
    ] = None,
    above: Annotated[
        float | None,
        option(
            "Call a revision bad beyond this value (default: halfway between "
            "--good and --bad); not for run_seconds, which is a ratio to --good.",
            least=0.0,
        ),
    ] = None,
    repo: RepoOption = None,
    model: Annotated[
        str | None,
        option(
            "Find out whether the compiler or the model changed, with the clone "
            "that holds RECIPE and two of its commits.",
            metavar="DIR@GOOD..BAD",
        ),
    ] = None,
    project: ProjectOption = None,
    build: Annotated[
        bool,
        flag(
            "Build commits from source if no other source has them (takes hours).",
            "--build",
        ),
    ] = False,
    interactive: Annotated[
        bool,
        flag(
            "Show the suspects, propose each revision to test, and let you decide.",
            "--interactive",
            "-i",
        ),
    ] = False,
    resume: Annotated[
        bool,
        flag(
            "Continue an interrupted interactive bisect; cached results are used "
            "in any case.",
            "--resume",
        ),
    ] = False,
    dry_run: DryRunOption = False,
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
    if metric is None and above is not None:
        raise BadInput("--above needs --metric")
    compiling.app.is_dry = dry_run
    before, after = ends.pair
    asked = partial(
        BisectRequest,
        repo=repo,
        project_file=project,
        kind=ends.find,
        match=match_by(match),
        build=build,
    )
    if model:
        return _bisect_both(named, compiling, ends, model, asked, output)
    chosen = named.load_for(lambda: _tested_family(project, ends.good, ends.bad))
    with compiling.open(chosen) as engine:
        request = asked(engine, chosen)
        if dry_run:
            write_report(output, _forecast(request, before, after), forecast_document)
            return Exit.OK
        with ExitStack() as opened:
            if metric:
                request = opened.enter_context(
                    _measuring(request, before, after, metric, above)
                )
            if interactive:
                found = prompt(request, before, after, resume=resume)
            else:
                found = bisect_between(request, before, after)
    write_report(output, found, partial(bisect_document, compiler=chosen.compiler))
    return _exit_of(found)


def _bisect_both(
    named: OneCaseOrScript,
    compiling: Compiling,
    ends: BisectEnds,
    model: str,
    asked: Callable[[Engine, Case], BisectRequest],
    output: str,
) -> Exit:
    """Bisect the compiler and a model that DIR@GOOD..BAD names."""
    before, after = ends.pair
    folder, at, refs = model.rpartition("@")
    good, dots, bad = refs.partition("..")
    if not (at and good and dots and bad):
        raise BadInput(
            f"--model {model}: write DIR@GOOD..BAD, such as ~/models@v1.4..main"
        )
    if before is None or after is None or named.recipe is None:
        raise BadInput(
            "--model needs a recipe or a program, no --script, and --good and --bad; "
            "for a compiler that stays name the same one twice"
        )
    repository = Repository(Path(folder).expanduser())
    shas = _in_order(ends.find, repository.resolve(good), repository.resolve(bad))
    path = path_inside(named.recipe, repository)
    with temporary_folder() as scratch:
        models = ModelHistory(repository, path, shas, scratch, named.case_of)
        case = models.case_of(shas[1])
        if isinstance(case, NoAnswer):
            raise BadInput(case.reason)
        with compiling.open(case) as engine:
            both = bisect_two(asked(engine, case), models, before, after)
    document = partial(two_repositories_document, compiler=case.compiler)
    write_report(output, both, document)
    return _exit_of(both.bisection)


def _tested_family(project: Path | None, *revs: str | None) -> str:
    """Return the family of the compilers that a script tests: that of the project file,
    or of a revision such as `triton:3.1.0`.
    """
    own = Path(FILE)
    if project is None and not own.is_file():
        return named_family(*revs)
    family = load_project(project or own).compiler
    if family in Families():
        return family
    return str(FamilyRef(family, recipe="script"))  # a compiler in a folder


def _in_order(kind: BisectKind, good: T, bad: T) -> tuple[T, T]:
    """Return the older of two first, or good first of an older and a newer one."""
    return (good, bad) if kind is BisectKind.REGRESSION else (bad, good)


def _exit_of(bisection: Bisection) -> Exit:
    if bisection.status is Answer.CULPRIT:
        return Exit.OK
    return exit_without_answer([bisection.cause])


def _forecast(
    request: BisectRequest, before: str | None, after: str | None
) -> Forecast:
    """Return what is known of each release; over commits, of the ends."""
    ends = commit_ends(request, before, after)
    refs: Sequence[ToolchainRef]
    if ends:
        refs = compilers_at(request, *ends)
    else:
        releases, _, _ = releases_between(request, before, after)
        refs = [one.ref for one in releases.candidates]
    return forecast(request.engine, [ProbeJob(request.case, ref) for ref in refs])


@contextmanager
def _measuring(
    request: BisectRequest,
    before: str | None,
    after: str | None,
    text: str,
    above: float | None,
) -> Iterator[BisectRequest]:
    """Yield the request with an engine that calls a number beyond the limit a failure.
    text: NAME[:FUNCTION].
    """
    if before is None or after is None:
        raise BadInput(
            "--metric needs both --good and --bad: they say which values are good and "
            "which are bad"
        )
    ends = _in_order(request.kind, *compilers_at(request, before, after))
    choice = MetricChoice.parse(text, SECONDS)
    if above is not None:
        if not choice.metric.exact:
            raise BadInput("--above needs a number that is the same each time")
        limits = (*request.case.thresholds, (choice.metric.name, above))
        yield replace(request, case=replace(request.case, thresholds=limits))
        return
    with engine_with_judge(request.engine, request.case, ends, choice) as judging:
        yield replace(request, engine=judging)


@command
def suspects(
    app: AppContext,
    source: Annotated[
        Path,
        argument(
            "RECIPE|LOG",
            "Recipe, program, pasted issue, or log with the failure; a log is of "
            "the default compiler unless a REV names another.",
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

    All failures of a log count. For a recipe or a program, its latest stored failures
    count. A text whose program cannot be run is read as a log, of IREE or of the
    compiler that a REV names (`triton:3.1.0`).

    The 20 most suspicious changes are shown, all of them with --verbose.
    """
    from triage.bisect.suspects import rank_changes

    failures: tuple[Failure, ...] = ()
    chosen = _case_to_run(program, source, case)
    if _is_read_as_text(source):
        failures = classify_log(source, packaged_rules()).failures
    has_program = chosen is not None
    if chosen is None:
        chosen = _log_case(source, program.backend, named_family(good, bad))
    with open_engine_for(app, [chosen]) as engine:
        if has_program:
            failures = (*_last_failures(engine, chosen), *failures)
        ranked = rank_changes(
            BisectRequest(engine, chosen, repo, project), good, bad, failures
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
        except (BadInput, EnvironmentFailure):
            continue  # a toolchain that no longer exists
        probe = engine.recall(ProbeJob(case, ref))
        if probe and isinstance(probe.outcome, Failed):
            return (probe.outcome.failure, *probe.outcome.others)
    return ()


def _log_case(log: Path, backend: str | None, compiler: str) -> Case:
    """Return what is known of the case of a log: nothing but its compiler."""
    unknown = Input(log.absolute(), InputKind.OTHER)
    return Case(log.stem, log.stem, "", compiler, log, unknown, Target(backend or ""))
