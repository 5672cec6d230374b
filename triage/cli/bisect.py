"""`triage bisect`: which change it was."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from triage.bisect.belief import confirmations
from triage.bisect.candidates import CommitCandidates
from triage.bisect.metric import MetricChoice, measuring
from triage.bisect.plan import bisect_between, candidates_of, compilers_at
from triage.bisect.recorded_pair import RecordedPair
from triage.bisect.request import BisectRequest
from triage.bisect.result import CONFIDENCE, Answer, Bisection, BisectKind
from triage.bisect.two_repositories import ModelHistory, bisect_two, path_inside
from triage.cli.context import named_family
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.interactive_bisect import prompt
from triage.cli.options import (
    SECONDS,
    Compiling,
    FailureMatch,
    ForecastOption,
    FormatOption,
    OneCaseOrScript,
    ProjectOption,
    RepoOption,
    TrustOption,
    flag,
    match_by,
    option,
)
from triage.compilers.registry import Families
from triage.execution.engine import Engine
from triage.execution.results import Forecast, forecast
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause
from triage.model.revision import FamilyRef
from triage.report.bisection import bisect_document, two_repositories_document
from triage.report.formats import write_report
from triage.report.tables import forecast_document
from triage.toolchains.home import default_home
from triage.toolchains.sources.project import FILE, load_project

T = TypeVar("T")


@dataclass(kw_only=True)
class BisectEnds:
    """The change to find and the two revisions around it, named one by one or read from
    an earlier answer.
    """

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
    verify: Annotated[
        Path | None,
        option(
            "Repeat only the deciding pair of an answer that --format json printed.",
            metavar="FILE",
        ),
    ] = None

    @cached_property
    def recorded(self) -> RecordedPair | None:
        if self.verify is None:
            return None
        if self.good or self.bad:
            raise BadInput("--verify takes its revisions from the file")
        return RecordedPair.read(self.verify)

    @property
    def kind(self) -> BisectKind:
        if self.recorded:
            return self.recorded.kind
        return self.find

    @property
    def pair(self) -> tuple[str | None, str | None]:
        """The older revision and the newer one, if they are named."""
        if self.recorded:
            return (self.recorded.before, self.recorded.after)
        return _in_order(self.find, self.good, self.bad)


@command
def bisect(
    named: OneCaseOrScript,
    compiling: Compiling,
    ends: BisectEnds,
    match: Annotated[
        FailureMatch,
        option(
            "What of the failure must stay the same; other failures are skipped.",
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
    threshold: Annotated[
        float | None,
        option(
            (
                "Call a revision bad beyond this value (default: halfway between "
                "--good and --bad); for run_seconds, a ratio to --good."
            ),
            least=0.0,
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
    if ends.verify and (model or metric or interactive):
        raise BadInput("--verify does not work with --model, --metric, --interactive")
    (before, after), models = ends.pair, None
    if model:
        models = _model_history(named, model, ends.kind)
        chosen = models.at(models.ends[1])
    else:
        chosen = named.load_for(lambda: _tested_family(project, ends.good, ends.bad))
    with compiling.open(chosen, trust=trust) as engine:
        request = BisectRequest(
            engine,
            chosen,
            repo,
            project,
            ends.kind,
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
            return _bisect_both(request, models, before, after, output)
        with (
            _measuring(request, before, after, metric, threshold)
            if metric
            else nullcontext(request) as request
        ):
            if interactive:
                found = prompt(request, before, after, resume=resume)
            else:
                found = bisect_between(request, before, after)
    if ends.recorded:
        found = ends.recorded.compare(found)
    elif (
        repo is None
        and (ends.good or ends.bad or ends.find is BisectKind.FIX)
        and _lacks_ends(found)
        and not _always_fails(engine, chosen, found, before)
    ):
        found = replace(found, command=_command_without_ends(named, chosen))
    write_report(output, found, partial(bisect_document, compiler=chosen.compiler))
    return _exit_of([found])


def _bisect_both(
    request: BisectRequest,
    models: ModelHistory,
    before: str | None,
    after: str | None,
    output: str,
) -> Exit:
    """Bisect the compiler and the model."""
    if before is None or after is None:
        raise BadInput(
            "--model needs --good and --bad as well; for a compiler that stays name "
            "the same one twice"
        )
    both = bisect_two(request, models, before, after)
    document = partial(two_repositories_document, compiler=request.case.compiler)
    write_report(output, both, document)
    return _exit_of(both.bisections)


def _lacks_ends(found: Bisection) -> bool:
    """Return whether the named revisions are not the ends of a change."""
    return (
        found.status is Answer.INCONCLUSIVE
        and found.cause is Cause.NOT_FOUND
        and found.failure is None
    )


def _command_without_ends(named: OneCaseOrScript, case: Case) -> str:
    """Return the command line that finds the ends itself."""
    words = ["triage", "bisect"]
    if named.recipe:
        words += [str(named.recipe)]
    if named.script:
        words += ["--script", str(named.script)]
    if case.matrix:
        words += ["--case", case.name]
    return shlex.join(words)


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
        return named_family(*revs)
    family = load_project(project or own).compiler
    if family in Families():
        return family
    return str(FamilyRef(family, recipe="script"))  # a compiler in a folder


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
    named: OneCaseOrScript, model: str, kind: BisectKind
) -> ModelHistory:
    """Open the history of a model that DIR@GOOD..BAD names."""
    if named.script or named.recipe is None:
        raise BadInput(
            "--model needs a recipe or a program, and does not work with --script"
        )
    folder, at, refs = model.rpartition("@")
    good, dots, bad = refs.partition("..")
    if not (at and good and dots and bad):
        raise BadInput(
            f"--model {model}: write DIR@GOOD..BAD, such as ~/models@v1.4..main"
        )
    repository = Repository(Path(folder).expanduser())
    ends = _in_order(kind, repository.resolve(good), repository.resolve(bad))
    path, load = named.recipe, named.case_of
    if path.is_file() and path_inside(path, repository) is None:
        case = named.case_of(path)
        path, load = case.input.path, partial(_with_input, case)
    return ModelHistory(repository, path, default_home(), load, ends)


def _with_input(case: Case, path: Path) -> Case:
    """Return the case of a recipe outside of the clone with a commit's input."""
    if not path.is_file():
        raise BadInput("the commit has no such file")
    return replace(case, input=replace(case.input, path=path))


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
    choice = MetricChoice.parse(text, SECONDS, threshold)
    with measuring(request.engine, request.case, ends, choice) as judging:
        yield replace(request, engine=judging)
