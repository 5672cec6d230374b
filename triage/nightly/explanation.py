"""Explain one failure: where it fails, since when, after which pass the compilers diverge, and what works around it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

from triage.attribute.result import Attribution
from triage.bisect.result import Bisection, BisectKind
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine, time_limit
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Compiled, Failed, Failure, Untestable
from triage.model.revision import Revision
from triage.nightly.result import StepResult
from triage.remedy.result import Remedies
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 40  # candidates


@dataclass(frozen=True)
class Explanation:
    """What is known of a case and its failure."""

    JSON_KEYS: ClassVar = {"compiler": None, "cause": None}
    JSON_PROPERTIES: ClassVar = ("status",)

    case: str
    compiler: str | None = None
    """The compiler family."""
    toolchain: Revision | None = None
    """The one that was asked for, or the newest installed release."""
    passes: bool = False
    """Whether the case compiles on that toolchain."""
    failure: Failure | None = None
    flaky: bool = False
    fails_on: Revision | None = None
    """The toolchain of the failure: the one above, or the newest release that fails."""
    bisection: Bisection | None = None
    attribution: Attribution | None = None
    remedies: Remedies | None = None
    left: tuple[StepResult, ...] = ()
    """Steps without a result, each with the reason."""
    next: tuple[str, ...] = ()
    """Command lines that go on from here."""
    reason: str | None = None
    """Why the toolchain cannot test the case."""
    cause: Cause | None = None
    log: ClassifiedLog | None = None
    """The failures in a text without a program."""

    @property
    def fixed(self) -> Revision | None:
        """The first release with the fix."""
        found = self.bisection
        if found is None:
            return None
        return found.fixed.after if found.fixed else None if found.brought_failure else found.after

    @property
    def pair(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision around the change."""
        found = self.bisection
        if found is None or found.before is None or found.after is None:
            return None
        return (found.before, found.after) if found.brought_failure else (found.after, found.before)

    @property
    def broke(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision where the case broke, in whatever way; those of the fix if it always failed."""
        found = self.bisection
        return (found.broke.before, found.broke.after) if found and found.broke else self.pair

    @property
    def status(self) -> str:
        """Return `fails`, `fixed` (by a newer release), `passes`, `inconclusive`, or `log`."""
        if self.log is not None:
            return "log"
        if self.flaky or (self.failure is None and not self.passes):
            return "inconclusive"
        return "passes" if self.failure is None else "fixed" if self.fixed else "fails"


@dataclass(frozen=True)
class ExplainRequest:
    """The case to explain and how."""

    runner: Engine
    case: Case
    siblings: Sequence[Case]
    """The cases of its recipe."""
    words: Sequence[str]
    """What names the case on a command line."""
    rev: str | None
    """The toolchain (default: the newest installed release)."""
    budget: float
    """Seconds to compare the passes and to try remedies."""

    def ref(self, name: str | None = None) -> ToolchainRef:
        registry, family = self.runner.registry, self.case.compiler
        if name is not None:
            return registry.resolve(name, family)
        stored = registry.installed_releases(family)
        return stored[-1] if stored else registry.resolve("latest", family)

    def line(self, command: str, *options: str) -> str:
        """Return a command line about the case."""
        return shlex.join(["triage", command, *self.words, *options])


def explain(request: ExplainRequest) -> Iterator[Explanation]:
    """Explain a case step by step, and yield what is known after each step.

    Raises:
        BadInput: The family has no releases, or there is no such revision.
        EnvironmentFailure: The toolchain cannot be obtained.
    """
    runner, case = request.runner, request.case
    ref = request.ref(request.rev)
    probe = runner.probe(case, ref)
    known = Explanation(case.name, case.compiler, probe.revision, isinstance(probe.outcome, Compiled))
    if isinstance(probe.outcome, Failed):
        known = replace(known, failure=probe.outcome.failure, flaky=probe.outcome.flaky, fails_on=probe.revision)
    elif isinstance(probe.outcome, Untestable):
        known = replace(known, reason=probe.outcome.reason, cause=probe.outcome.cause)
    yield known
    if request.rev and (known.failure is None or known.flaky):
        return
    found = _within(runner, inf, lambda: _bisect(request, ref))
    known = _with(known, "bisection", found, request.line("bisect"))
    if isinstance(found, Bisection) and found.failure and not known.flaky:
        known = replace(known, failure=known.failure or found.failure)
        last = found.fixed.before if found.fixed else None if found.brought_failure else found.before
        if request.rev is None and last:
            known = replace(known, failure=found.failure, fails_on=last)
        known = replace(known, fails_on=known.fails_on or found.after)
    yield known
    if known.failure is None or known.fails_on is None or known.flaky:
        return
    started, toolchain = time.monotonic(), known.fails_on.name
    is_regression = known.bisection is not None and known.bisection.brought_failure
    if (pair := known.pair) and runner.compilers[case.compiler].ir is not None and known.failure.stage is Stage.COMPILE:
        found = _within(runner, request.budget / 2, lambda: _attribute(request, pair))
        known = _with(known, "attribution", found, request.line("attribute", *_ends(pair)))
        yield known
    good = ["--good", known.broke[0].name] if known.broke and is_regression else []
    rest = request.budget - (time.monotonic() - started)
    found = _within(runner, rest, lambda: _remedies(request, toolchain, good[1:], rest / 2))
    narrow = request.line("remedy", "-t", toolchain, *good)
    known = _with(known, "remedies", found, narrow)
    if known.broke:
        narrow = request.line("bisect", *([] if is_regression else ["--find", "fix"]), *_ends(known.broke), "--repo", "DIR")
    yield replace(known, next=(request.line("reduce", "-t", toolchain, *good), narrow))


def _ends(pair: tuple[Revision, Revision]) -> list[str]:
    return ["--good", pair[0].name, "--bad", pair[1].name]


def _with(known: Explanation, name: str, found: Any, command: str) -> Explanation:
    """Add the result of a step, or why it has none."""
    if not isinstance(found, str):
        return replace(known, **{name: found})
    return replace(known, left=(*known.left, StepResult(command.split()[1], "left", 0.0, found, command)))


def _within(runner: Engine, seconds: float, step: Callable[[], Any]) -> Any:
    """Return the result of a step, or the reason why it has none. It is stopped when its time is over."""
    if seconds <= 0:
        return "the budget is spent"
    with time_limit(runner.stop, seconds) as over:
        try:
            return step()
        except Interrupted:
            if not over.is_set():
                raise
        except (BadInput, EnvironmentFailure) as error:
            return str(error)
    return "the budget is spent"


def _bisect(request: ExplainRequest, ref: ToolchainRef) -> Bisection:
    """Find where the case broke among the releases and, for a named release that fails, where it was fixed later."""
    from triage.bisect.plan import bisect_between  # numpy is slow to import
    from triage.bisect.search import BisectRequest

    bisecting = BisectRequest(request.runner, request.case)
    if request.rev is None:
        return bisect_between(bisecting)
    if not ref.is_release:
        return bisect_between(bisecting, request.ref("latest").revision.name, request.rev)
    found = bisect_between(bisecting, None, request.rev)
    if request.runner.registry.releases(request.case.compiler)[-1].revision.name != ref.revision.name:
        fix = bisect_between(replace(bisecting, kind=BisectKind.FIX), request.rev)
        found = replace(found, fixed=fix.transition())
    return found


def _attribute(request: ExplainRequest, pair: tuple[Revision, Revision]) -> Attribution | str:
    from triage.attribute.divergence import attribute  # slow to import

    good, bad = (request.ref(revision.name) for revision in pair)
    found = attribute(request.runner, request.case, good, bad, excerpts=False)
    return found if found.reason is None else found.reason


def _remedies(request: ExplainRequest, bad: str, good: Sequence[str], seconds: float) -> Remedies | str:
    from triage.remedy.workflow import RemedyRequest, find_remedies

    better = request.ref(good[0]) if good else None
    asked = RemedyRequest(request.case, request.ref(bad), better, _REMEDIES_TRIED, request.siblings, seconds=seconds)
    found = find_remedies(request.runner, asked)
    if found.is_out_of_time and not found.remedies:
        return f"none of {found.tried} candidates works, {found.left} are left"
    return found
