"""`triage bisect`: the release or commit that brought a failure, or fixed it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.bisect.result import CONFIDENCE, SPARE, Answer, Bisection, BisectKind
from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    MATCHES,
    AttributeOption,
    CaseOption,
    ExecutorOption,
    FailureMatch,
    ForecastOption,
    FunctionOption,
    JobsOption,
    MetricOption,
    ProjectOption,
    RecipePath,
    RepoOption,
    SuiteOption,
    TimeOption,
    TrustOption,
    WorseOption,
    duration_of,
    format_option,
    metric_named,
)
from triage.cli.screen import print_stderr
from triage.execution.judge import Metric, MetricThreshold
from triage.execution.runner import ProbeJob
from triage.model.errors import BadInput
from triage.report.bisection import BisectReport, TwoRepositoriesReport
from triage.report.forecast import ForecastReport, forecast
from triage.report.registry import write_report
from triage.toolchains.home import home_path

if TYPE_CHECKING:  # the search needs numpy, which is slow to import
    from triage.bisect.models import ModelHistory
    from triage.bisect.plan import BisectRequest
    from triage.bisect.two_repositories import TwoRepositories

Ends = tuple[str | None, str | None]


@command
def bisect(
    context: typer.Context,
    recipe: RecipePath,
    case: CaseOption = None,
    suite_config: SuiteOption = None,
    good: Annotated[
        str | None, typer.Option(help="Known-good revision, which compiles (default: found automatically).")
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(help="Known-bad revision, which fails (default: the newest; with --find fix, found automatically)."),
    ] = None,
    find: Annotated[
        BisectKind, typer.Option(help="Find the change that brought the failure, or the one that fixed it.")
    ] = BisectKind.REGRESSION,
    match: Annotated[
        FailureMatch, typer.Option(help="What counts as the same failure; probes with another failure are skipped.")
    ] = FailureMatch.SIGNATURE,
    metric: MetricOption = None,
    worse: WorseOption = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Number beyond which a probe is bad; for run_seconds a ratio to the good end (default: between the ends).",
        ),
    ] = None,
    function: FunctionOption = None,
    time: TimeOption = "60s",
    repo: RepoOption = None,
    trust: TrustOption = False,
    model_repo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Clone that holds RECIPE: find out whether the compiler or the model changed."),
    ] = None,
    model_good: Annotated[str | None, typer.Option(metavar="REF", help="Known-good commit of the model repository.")] = None,
    model_bad: Annotated[str | None, typer.Option(metavar="REF", help="Known-bad commit of the model repository.")] = None,
    project: ProjectOption = None,
    confidence: Annotated[
        float,
        typer.Option(min=0.5, max=1.0, help="Stop when the culprit's posterior probability reaches this."),
    ] = CONFIDENCE,
    repeats: Annotated[int, typer.Option(min=1, help="Compiles for each probe, for flaky failures.")] = 1,
    spare: Annotated[
        int,
        typer.Option(min=0, help="Probes beyond plain halving that a misleading guess may cost at worst."),
    ] = SPARE,
    attribute: AttributeOption = True,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Show the suspects and propose each probe; you decide.")
    ] = False,
    import_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Start with the verdicts of a `git bisect log`."),
    ] = None,
    export_log: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the verdicts as a `git bisect log`.")] = None,
    jobs: JobsOption = None,
    executor: ExecutorOption = None,
    dry_run: ForecastOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted interactive bisect; cached results are used in any case.")
    ] = False,
    output: Annotated[str, format_option(BisectReport)] = "text",
) -> Exit:
    """Find the release that brought a failure (with --repo the commit), or with --find fix the one that fixed it.

    Both ends are verified, another failure is never taken for this one, and the answer is confirmed by probing the
    pair again. Without bounds: the change that led to the newest release's state.

    - `triage bisect recipes/cuda-matmul-f32.yaml --good 2.9.0 --bad 3.5.0`

    - `triage bisect recipes/cuda-matmul-f32.yaml --find fix --repo ~/iree`

    - `triage bisect recipes/row-sum.yaml --metric run_seconds --good 3.9.0 --bad 3.13.0` finds where a program became slower

    - `triage bisect models/llama.yaml --good 3.2.0 --bad 3.3.0 --model-repo . --model-good v1 --model-bad main`
    """
    before, after = (good, bad) if find is BisectKind.REGRESSION else (bad, good)
    two_repositories = any((model_repo, model_good, model_bad))
    if two_repositories and (metric or interactive or import_log or export_log or dry_run):
        raise BadInput(
            "a bisect over two repositories does not work with --metric, --interactive, --import-log, --export-log, --dry-run"
        )
    followed = metric_named(metric, worse)
    if metric is None and (threshold is not None or function is not None):
        raise BadInput("--threshold and --function need --metric")
    models = _model_history(recipe, case, model_repo, (good, bad), (model_good, model_bad)) if two_repositories else None
    chosen = models.at(models.ends[1]) if models else one_case(load_cases([recipe], suite_config), case)
    context.obj.trust = trust
    context.obj.executor = executor
    with open_runner(context.obj, [chosen], jobs) as runner, ExitStack() as opened:
        from triage.bisect.plan import BisectRequest, WrongOrder, bisect_between

        compare = attribute and metric is None
        request = BisectRequest(runner, chosen, repo, project, find, MATCHES[match], confidence, repeats, compare, spare)
        if dry_run:
            write_report(_forecast(request, before, after), output)
            return Exit.OK
        if models:
            both = _bisect_two(request, models, (good, bad))
            write_report(TwoRepositoriesReport(both), output)
            return _exit_of(both.bisections)
        if followed:
            wanted = _MetricOptions(followed, threshold, function, time)
            request = opened.enter_context(_measuring(request, good, bad, wanted))
        if interactive or import_log or export_log:
            logs = (import_log, export_log)
            bisection = _with_session(request, before, after, interactive=interactive, resume=resume, logs=logs)
        else:
            try:
                bisection = bisect_between(request, before, after)
            except WrongOrder as error:
                states, line = _advice(request, before, after, recipe)
                raise BadInput(f"{error}. {states}." + (f" Run:\n  {line}" if line else "")) from error
            if bisection.answer is Answer.INCONCLUSIVE and bisection.cause is None and bisection.failure is None:
                _, line = _advice(request, before, after, recipe)
                bisection = replace(bisection, command=line)
    write_report(BisectReport(bisection), output)
    return _exit_of([bisection])


def _model_history(recipe: Path, name: str | None, folder: Path | None, compilers: Ends, refs: Ends) -> ModelHistory:
    """Open the history of a model. compilers, refs: the good end and the bad one; name: of the case."""
    from triage.bisect.models import ModelHistory
    from triage.git_history import Repository

    if folder is None or None in refs:
        raise BadInput("a bisect over two repositories needs --model-repo, --model-good and --model-bad")
    if None in compilers:
        raise BadInput("--model-repo needs --good and --bad as well; for a compiler that stays name the same one twice")
    repository = Repository(folder)
    ends = [repository.resolve(str(ref)) for ref in refs]
    return ModelHistory(repository, recipe, home_path(), lambda path: one_case(load_cases([path]), name), ends)


def _bisect_two(request: BisectRequest, models: ModelHistory, compilers: Ends) -> TwoRepositories:
    from triage.bisect.two_repositories import bisect_two

    pairs = [(str(compiler), sha) for compiler, sha in zip(compilers, models.ends, strict=True)]
    old, new = pairs if request.kind is BisectKind.REGRESSION else reversed(pairs)
    return bisect_two(request, models, old, new)


def _exit_of(bisections: Sequence[Bisection]) -> Exit:
    if all(bisection.answer is Answer.CULPRIT for bisection in bisections):
        return Exit.OK
    return exit_without_answer(bisection.cause for bisection in bisections)


def _forecast(request: BisectRequest, before: str | None, after: str | None) -> ForecastReport:
    """Return which candidates are known and how many probes the bisect makes at most."""
    from triage.bisect.plan import candidates_of
    from triage.bisect.search import confirmations

    candidates = candidates_of(request, before, after)
    closed = candidates.closed()
    jobs = [ProbeJob(request.case, candidates.ref(index)) for index in range(len(candidates)) if index not in closed]
    # Where the ends are not named, up to three changes are confirmed: where it broke, changed and went.
    pairs = 1 if before and after else 3
    again = 2 * confirmations(request.confidence) * request.repeats
    what = "confirm the pair around the change" if pairs == 1 else "confirm the pairs around up to three changes"
    return forecast(
        request.runner, jobs, repeats=request.repeats, more=again * pairs, what=f"that includes {again * pairs} to {what}"
    )


def _advice(request: BisectRequest, before: str | None, after: str | None, recipe: Path) -> tuple[str | None, str | None]:
    """Return the states of the named ends, and a command line whose ends fit; None for what is not known."""
    from triage.bisect.plan import ends_that_work

    ends = ends_that_work(request, before, after)
    case = ["--case", request.case.name] if request.case.matrix else []
    words = ["triage", "bisect", str(recipe), *case]
    if ends is None:
        is_failing = not (before or after or request.repo) and request.kind is BisectKind.FIX
        return None, shlex.join(words) if is_failing else None
    if isinstance(ends, str):
        return ends, None
    find = ["--find", "fix"] if ends.kind is BisectKind.FIX else []
    return ends.states, shlex.join([*words, *find, "--good", ends.good, "--bad", ends.bad])


@dataclass(frozen=True, slots=True)
class _MetricOptions:
    """The options of a bisect of a number, as the user wrote them."""

    metric: Metric
    threshold: float | None
    function: str | None
    time: str


@contextmanager
def _measuring(request: BisectRequest, good: str | None, bad: str | None, wanted: _MetricOptions) -> Iterator[BisectRequest]:
    """Yield the request with a runner for which a number above the threshold is a failure."""
    from triage.bisect.metric import threshold_between
    from triage.bisect.plan import compilers_at
    from triage.bisect.slower import judged_by_time

    if good is None or bad is None:
        raise BadInput("--metric needs both --good and --bad: they say which values are good and which are bad")
    older, newer = (good, bad) if request.kind is BisectKind.REGRESSION else (bad, good)
    refs = compilers_at(request, older, newer)
    better, worse = refs if request.kind is BisectKind.REGRESSION else reversed(refs)
    runner, case, metric = request.runner, request.case, wanted.metric
    ends, budget = (better, worse), duration_of("--time", wanted.time)
    if metric in (Metric.RUN_SECONDS, Metric.CPU_SECONDS):
        with judged_by_time(runner, case, ends, metric, wanted.function, budget, wanted.threshold) as judging:
            yield replace(request, runner=judging)
    elif wanted.threshold is not None:
        yield replace(request, runner=runner.with_threshold(MetricThreshold(metric, metric.compared(wanted.threshold))))
    else:
        yield replace(request, runner=runner.with_threshold(threshold_between(runner, case, better, worse, metric)))


def _with_session(
    request: BisectRequest,
    before: str | None,
    after: str | None,
    *,
    interactive: bool,
    resume: bool,
    logs: tuple[Path | None, Path | None],
) -> Bisection:
    """Bisect with a journal: led by a person, or with a log to import or export."""
    from triage.bisect.plan import open_session, report_progress
    from triage.bisect.search import run_search
    from triage.bisect.session import from_git_log, git_log
    from triage.cli.interactive_bisect import lead

    session = open_session(request, before, after)
    if isinstance(session, Bisection):
        return session
    if resume:
        count = session.resume()
        print_stderr(f"resumed: {count} verdict{'s' if count != 1 else ''} of the journal")
    elif known := len(session.journal.read()):
        print_stderr(f"an earlier bisect of this range left {known} verdict{'s' if known != 1 else ''}; --resume continues it")
    given, wanted = logs
    if given:
        session.take_in(from_git_log(given.read_text("utf-8", "replace"), request.kind, str(given)))
    bisection = lead(session) if interactive else run_search(session.search, report_progress)
    if wanted:
        wanted.write_text(git_log(session.verdicts(), request.kind), "utf-8")
    return bisection
