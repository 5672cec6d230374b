"""`triage bisect --model-repo`: which of two repositories moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.bisect.metric import threshold_between
from triage.bisect.models import ModelHistory
from triage.bisect.moved import TwoRepositories, bisect_two
from triage.bisect.plan import Chase
from triage.bisect.releases import bisect_releases
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.cli.context import load_cases, one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import (
    MATCHES,
    AttributeOption,
    CaseOption,
    FailureMatch,
    JobsOption,
    ProjectOption,
    RecipePath,
    RepoOption,
    format_option,
)
from triage.cli.screen import print_stderr
from triage.execution.metrics import Metric, MetricThreshold
from triage.execution.runner import ProbeRunner
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.report.bisection import BisectReport, TwoRepositoriesReport
from triage.report.registry import write_report
from triage.toolchains.home import home_path

if TYPE_CHECKING:
    from triage.bisect.moved import TwoRepositories
    from triage.bisect.plan import Chase


Ends = tuple[str | None, str | None]


def model_history(recipe: Path, name: str | None, folder: Path | None, compilers: Ends, refs: Ends) -> ModelHistory:
    """name: of the case, where the recipe has several; folder: of the model repository; compilers, refs: the good end and
    the bad one. BadInput when one of them is missing.
    """
    if folder is None or None in refs:
        raise BadInput("a bisect over two repositories needs --model-repo, --model-good and --model-bad")
    if None in compilers:
        raise BadInput("--model-repo needs --good and --bad as well; for a compiler that stays name the same one twice")
    repository = Repository(folder)
    ends = [repository.resolve(str(ref)) for ref in refs]
    return ModelHistory(repository, recipe, home_path(), lambda path: one_case(load_cases([path]), name), ends)


def bisect_across(chased: Chase, models: ModelHistory, compilers: Ends) -> TwoRepositories:
    """Bisect the compiler's and the model's history together. compilers: the good end and the bad one."""
    pairs = [(str(compiler), sha) for compiler, sha in zip(compilers, models.ends, strict=True)]
    old, new = pairs if chased.kind is BisectKind.REGRESSION else reversed(pairs)
    return bisect_two(chased, models, old, new)


@command
def bisect(
    context: typer.Context,
    recipe: RecipePath,
    case: CaseOption = None,
    good: Annotated[str | None, typer.Option(help="REV that compiles. Default: looked for.")] = None,
    bad: Annotated[str | None, typer.Option(help="REV that fails. Default: the newest, or looked for with --find fix.")] = None,
    find: Annotated[
        BisectKind, typer.Option(help="Look for the change that brought the failure, or the one that fixed it.")
    ] = BisectKind.REGRESSION,
    match: Annotated[
        FailureMatch, typer.Option(help="What counts as the same failure; any other one says nothing.")
    ] = FailureMatch.SIGNATURE,
    metric: Annotated[
        Metric | None, typer.Option(help="Look for where this number grew instead of a failure; needs --good and --bad.")
    ] = None,
    repo: RepoOption = None,
    model_repo: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A clone that holds RECIPE: which moved, the compiler or the model?")
    ] = None,
    model_good: Annotated[str | None, typer.Option(metavar="REF", help="Commit of the model repository that compiles.")] = None,
    model_bad: Annotated[str | None, typer.Option(metavar="REF", help="Commit of the model repository that fails.")] = None,
    project: ProjectOption = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=1.0, help="Of commits: how sure is sure enough.")] = 0.995,
    repeats: Annotated[int, typer.Option(min=1, help="Of commits: compile each so often; for failures that flicker.")] = 1,
    attribute: AttributeOption = True,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Show what is known and propose each probe; you decide.")
    ] = False,
    import_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Begin with the verdicts of a `git bisect log`.")
    ] = None,
    export_log: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the verdicts as a `git bisect log`.")] = None,
    jobs: JobsOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after an interruption; what is known is used in any case.")
    ] = False,
    output: Annotated[str, format_option(BisectReport)] = "text",
) -> Exit:
    """Find the release that brought a failure, with --repo the commit; or with --find fix the one that took it away.

    Both ends are verified, another failure is never taken for this one, and the answer is confirmed by probing the
    pair again. Without bounds: the change that led to the newest release's state.

    - `triage bisect recipes/cuda-matmul-f32.yaml --good 2.9.0 --bad 3.5.0`

    - `triage bisect recipes/cuda-matmul-f32.yaml --find fix --repo ~/iree`

    - `triage bisect models/llama.yaml --good 3.2.0 --bad 3.3.0 --model-repo . --model-good v1 --model-bad main`
    """
    before, after = (good, bad) if find is BisectKind.REGRESSION else (bad, good)
    across = (model_repo, model_good, model_bad)
    if any(across) and (metric or interactive or import_log or export_log):
        raise BadInput("a bisect over two repositories goes with neither --metric, --interactive nor the logs of git")
    models = model_history(recipe, case, model_repo, (good, bad), (model_good, model_bad)) if any(across) else None
    cases = (models.at(models.ends[1]),) if models else load_cases([recipe])
    with open_runner(context.obj, cases, jobs) as bench:

        def chase(one: Case) -> Chase:
            from triage.bisect.plan import Chase  # numerics and git are for commits alone, and slow to import

            return Chase(bench, one, repo, project, find, MATCHES[match], confidence, repeats, attribute and metric is None)

        if models:
            answer = bisect_across(chase(cases[0]), models, (good, bad))
            write_report(TwoRepositoriesReport(answer), output)
            return _exit_of(answer.parts)
        chosen = one_case(cases, case)
        if metric:
            bench = bench.with_threshold(_threshold(chase(chosen), good, bad, metric))
        if repo is None and not interactive:
            found = _along_releases(bench, chosen, find, before, after, match)
        elif interactive or import_log or export_log:
            logs = (import_log, export_log)
            found = _led(chase(chosen), before, after, interactive=interactive, resume=resume, logs=logs)
        else:
            from triage.bisect.plan import bisect_between

            found = bisect_between(chase(chosen), before, after)
    write_report(BisectReport(found), output)
    return _exit_of([found])


def _exit_of(answers: Sequence[Bisection]) -> Exit:
    if all(one.answer is Answer.CULPRIT for one in answers):
        return Exit.OK
    return exit_without_answer(one.cause for one in answers)


def _threshold(chase: Chase, good: str | None, bad: str | None, metric: Metric) -> MetricThreshold:
    from triage.bisect.plan import compilers_at

    if good is None or bad is None:
        raise BadInput("--metric needs both --good and --bad: they say which values are good and which are bad")
    older, newer = (good, bad) if chase.kind is BisectKind.REGRESSION else (bad, good)
    places = compilers_at(chase, older, newer)
    better, worse = places if chase.kind is BisectKind.REGRESSION else reversed(places)
    return threshold_between(chase.bench, chase.case, better, worse, metric)


def _led(
    chase: Chase,
    before: str | None,
    after: str | None,
    *,
    interactive: bool,
    resume: bool,
    logs: tuple[Path | None, Path | None],
) -> Bisection:
    """A bisect with a journal: led by a person, or begun with and ended by a log."""
    from triage.bisect.commits import bisect_commits
    from triage.bisect.journal import from_git_log, git_log
    from triage.bisect.plan import open_session
    from triage.cli.interactive_bisect import lead

    session = open_session(chase, before, after)
    if isinstance(session, Bisection):
        return session
    if not resume and (known := len(session.journal.read())):
        print_stderr(f"an earlier bisect of this range left {known} verdicts; --resume goes on with them")
    if resume:
        print_stderr(f"{session.resume()} verdicts of the journal are used again")
    given, wanted = logs
    if given:
        session.take_in(from_git_log(given.read_text("utf-8"), str(given)))
    found = lead(session) if interactive else bisect_commits(session.search)
    if wanted:
        ends = [session.search.line.revision(index) for index in (0, session.search.last)]
        wanted.write_text(git_log(session.said(), *(end.commit or end.name for end in ends)), "utf-8")
    return found


def _along_releases(
    bench: ProbeRunner, case: Case, find: BisectKind, before: str | None, after: str | None, match: FailureMatch
) -> Bisection:
    places = bench.shed.releases(case.compiler)
    first, last = (_index(bench, case.compiler, name) if name else None for name in (before, after))
    if first is not None and last is not None and first >= last:
        raise BadInput(_wrong_order(find, before, after))
    return bisect_releases(bench, case, places, kind=find, before=first, after=last, match=MATCHES[match])


def _index(bench: ProbeRunner, family: str, text: str) -> int:
    name = bench.shed.place(text, family).revision.name
    names = [place.revision.name for place in bench.shed.releases(family)]
    if name not in names:
        raise BadInput(
            f"{text!r} is no stable release of the index ({names[0]} .. {names[-1]}); commits and nightlies need --repo"
        )
    return names.index(name)


def _wrong_order(find: BisectKind, before: str | None, after: str | None) -> str:
    other = "--find fix" if find is BisectKind.REGRESSION else "no --find fix"
    return f"{before} is not older than {after}: a {find.value} has its old state first; for the other direction use {other}"
