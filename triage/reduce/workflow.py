"""From a case that fails to a small program that fails the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from triage.execution.inputs import Prepared
from triage.execution.judge import Match
from triage.execution.metrics import Metric, MetricThreshold, value_of
from triage.execution.prober import Naming
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case, Input, InputKind
from triage.model.outcome import Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline, Growth, baseline, grown
from triage.reduce.draft import Draft, Program
from triage.reduce.fixpoint import checked, reduce_to_fixpoint
from triage.reduce.frontends.registry import format_of
from triage.reduce.oracle import Oracle
from triage.reduce.state import Effort, NotReproducible, Reduced, Reduction, Size, State
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

_PATIENCE = 4.0  # times the original's compile, for a draft
_LEAST = 10.0  # seconds
_MOST_MET = 5  # other failures that are probed on all versions; of the rest the programs are left
_MOST_HANGING = 30.0  # seconds for a draft of a program that was stopped for its time


@dataclass(frozen=True, slots=True)
class ReductionRequest:
    """What is to be reduced. match: what counts as the same failure, made from the one that is found; repeats: compiles
    of a draft before it is believed to pass, None to choose; metric: the number that grew, where nothing fails;
    slipped: a folder for programs that fail otherwise, made if need be.
    """

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None
    match: Callable[[Failure], Match]
    repeats: int | None = None
    resume: bool = False
    metric: Metric | None = None
    slipped: Path | None = None


def reduce_case(bench: ProbeRunner, order: ReductionRequest) -> Reduced | NotReproducible:
    """Reduce a case. Interrupted at any moment, the best draft is on disk and `resume` goes on from it."""
    started = time.monotonic()
    bad = bench.shed.obtain(order.bad)
    good = bench.shed.obtain(order.good) if order.good else None
    if order.metric:
        start = grown(bench.prober, order.case, bad, good, order.metric)
    else:
        start = baseline(bench, order.case, bad, good, order.match, order.repeats)
    if isinstance(start, NotReproducible):
        return start
    with ExitStack() as stack:
        work = _Work(bench, order, bad, good, start, stack)
        opened = work.open()
        if isinstance(opened, NotReproducible):
            return opened
        original, draft, line = opened
        draft = checked(draft, work.format.approach(line), work.reduction)
        draft = reduce_to_fixpoint(draft, work.format.steps, work.reduction)
        for step in work.format.finishing:
            draft = checked(draft, step, work.reduction)
        return work.finish(original, draft, started)


class _Work:
    """The parts of one reduction, put together and taken down by `stack`."""

    def __init__(
        self,
        bench: ProbeRunner,
        order: ReductionRequest,
        bad: Toolchain,
        good: Toolchain | None,
        start: Baseline,
        stack: ExitStack,
    ) -> None:
        self.bench, self.order, self.bad, self.start = bench, order, bad, start
        source = bench.prober.input_of(order.case)
        assert isinstance(source, Prepared)  # it was compiled
        self.source = source
        about = (order.case.name, source.digest, order.case.flags, order.case.target, order.case.phase, order.case.spec)
        identity = (*about, bad.identity, good and good.identity, start.failure.signature)
        self.state = State(bench.shed.home, repr(identity))
        if order.slipped:
            with disk_errors("keep programs that fail otherwise"):
                order.slipped.mkdir(parents=True, exist_ok=True)
        self.oracle = _oracle(bench, order, bad, good, start, stack.enter_context(self.state.drafts()))
        self.format, self.notes = format_of(bench, order.case, self.bad)
        stack.callback(self.format.close)
        task = bench.progress.task(f"reduce  {order.case.name}", total=None)
        stack.callback(task.finish)
        self.reduction = Reduction(self.oracle, self.format.valid, self.state.keep, bench.jobs, task)
        stack.callback(self.reduction.close)

    def open(self) -> tuple[Draft, Draft, int | None] | NotReproducible:
        """The original in a form that can be changed, the draft to go on from, and the line of the original where the
        compiler pointed, which is None when the draft is not the original.
        """
        case = self._hurried(self.order.case)
        onnx = self.order.case.input.kind is InputKind.ONNX  # worked on as it is, before it is imported
        source = self.order.case.input.path if onnx else self.source.path
        if self.order.resume and (kept := self.state.best(case)):
            best = (Draft(document, kept[1]) for document in self.format.open(kept[0]))
            original = next(iter(self.format.open(source)), None)
            if original is not None and (found := self.reduction.first(best)):
                return Draft(original, case), found, None
        why = "it cannot be read by this toolchain's tools"
        for document in self.format.open(source):  # one after another: with all its constants a program takes gigabytes
            if found := self.reduction.first(Draft(document, one) for one in self._stopping_early(case)):
                return found, found, _line(self.start.failure)
            why = "its generic form does not fail alike"
        return NotReproducible(self.order.case, why, self.start.probes)

    def _hurried(self, case: Case) -> Case:
        """The case with a time limit that follows from the original's compile, so that a hang is not waited for."""
        hanging = self.start.seconds >= case.limits.timeout
        limit = _MOST_HANGING if hanging else max(_LEAST, _PATIENCE * self.start.seconds)
        return replace(case, limits=replace(case.limits, timeout=min(case.limits.timeout, limit)))

    def _stopping_early(self, case: Case) -> Iterator[Case]:
        """The case that ends with the phase that fails, where that is known; then the case itself."""
        phase = self.start.failure.phase
        if case.phase is None and phase in self.bad.capabilities.phases:
            yield replace(case, phase=phase)
        yield case

    def finish(self, original: Draft, draft: Draft, started: float) -> Reduced | NotReproducible:
        """Write the draft down the way most versions can read, probe it in full, and say what it took."""
        case = replace(draft.case, limits=self.order.case.limits, phase=self.order.case.phase)
        chosen: tuple[bytes, tuple[Probe, ...], Failure] | None = None
        for content in self.format.written(draft.document):
            small = self._as_case(case, draft.document, content)
            probes = self._everywhere(small)
            failure = self._kept(small, probes)
            if failure and (chosen is None or _testable(probes) > _testable(chosen[1])):
                chosen = content, probes, failure
            if chosen and _testable(chosen[1]) == len(chosen[1]):
                break
        if chosen is None:
            why = "what was left does not fail the same way when it is probed in full"
            return NotReproducible(self.order.case, why, self.start.probes)
        tally = self.oracle.tally
        return Reduced(
            case=case,
            failure=chosen[2],
            bad=self.bad.revision,
            good=self.oracle.good.revision if self.oracle.good else None,
            text=chosen[0].decode("utf-8", "replace"),
            before=_size(original.document, original.document.content),
            after=_size(draft.document, chosen[0]),
            effort=Effort(
                calls=tally.calls + self.start.calls,
                cached=tally.cached + self.start.known,
                invalid=self.reduction.invalid,
                seconds=time.monotonic() - started,
                compile_seconds=tally.seconds + self.start.compile_seconds,
            ),
            evidence=chosen[1],
            others=tuple(self.oracle.slipped_on()),
            notes=(*self.start.notes, *self.notes),
            met=tuple(self._met(_size(original.document, original.document.content))),
        )

    def _met(self, before: Size) -> Iterator[tuple[Reduced, Path]]:
        """The programs that fail otherwise, as reproducers of what they fail with now: no step was taken towards them."""
        for draft, kept in self.oracle.met()[:_MOST_MET]:
            case = replace(draft.case, limits=self.order.case.limits, phase=self.order.case.phase)
            for content in self.format.written(draft.document):
                probes = self._everywhere(self._as_case(case, draft.document, content))
                found = next(one for one in probes if one.revision.name == self.bad.revision.name)
                if not isinstance(found.outcome, Failed):
                    continue
                failure = found.outcome.failure
                yield (
                    Reduced(
                        case=replace(case, name=f"{self.order.case.name} {kept.stem}"),
                        failure=failure,
                        bad=self.bad.revision,
                        good=None,
                        text=content.decode("utf-8", "replace"),
                        before=before,
                        after=_size(draft.document, content),
                        effort=Effort(sum(not one.cached for one in probes), 0, 0, 0.0, found.measured.seconds),
                        evidence=probes,
                        notes=(f"Met while {self.order.case.name} was reduced; not reduced itself.",),
                    ),
                    kept,
                )
                break

    def _everywhere(self, small: Case) -> tuple[Probe, ...]:
        """Probes of a program on every version at hand, in the order of their versions."""
        asked = (self.order.bad, *([self.order.good] if self.order.good else []))
        places = {place.revision.name: place for place in (*self.bench.shed.at_hand(small.compiler), *asked)}
        jobs = [ProbeJob(small, place) for place in places.values()]
        found = {probe.revision.name: probe for probe in self.bench.probe_all(jobs, "probe the reduced program")}
        if self.order.metric:
            threshold = self._threshold(self.order.metric, found)
            again = {name: partial(self.bench.probe, small, ref, fresh=True) for name, ref in places.items()}
            found = {name: threshold.read(found[name], again[name]) for name in places}
        return tuple(found[name] for name in places)

    def _threshold(self, metric: Metric, found: Mapping[str, Probe]) -> MetricThreshold:
        """The number above which the reduced program counts as failing: halfway, as a factor, between the two toolchains."""
        assert self.oracle.good
        values = [value_of(found[one.revision.name], metric) or 0.0 for one in (self.bad, self.oracle.good)]
        return MetricThreshold(metric, math.sqrt(values[0] * values[1]))

    def _as_case(self, case: Case, document: Program, content: bytes) -> Case:
        # What is known of a path is remembered, so that each content has a path of its own.
        path = self.state.folder / f"reduced-{sha256(content).hexdigest()[:12]}" / f"input.{document.suffix}"
        with disk_errors("write the reduced program"):
            path.parent.mkdir(exist_ok=True)
            write_whole(path, content)
        return replace(case, name=f"{case.name} (reduced)", input=Input(path, document.kind), expect=())

    def _kept(self, small: Case, probes: tuple[Probe, ...]) -> Failure | None:
        """The failure on the bad toolchain as it is probed in full, where it is the same one and the good one compiles."""
        by_name = {probe.revision.name: probe.outcome for probe in probes}
        if self.oracle.good and not isinstance(by_name[self.oracle.good.revision.name], Compiled):
            return None
        outcome = by_name[self.bad.revision.name]
        if not isinstance(outcome, Failed) or (outcome.flaky and self.start.repeats == 1):
            return None
        if self.start.whole is not None:
            return outcome.failure if self.order.match(self.start.whole)(outcome.failure) else None
        if self.start.naming is Naming.NEVER:
            return outcome.failure if self.start.match(outcome.failure) else None
        # A probe tells a crash by its pass, a trial by its stack: only trials can be compared with the original's.
        trial = self.bench.prober.trial(small, self.bad, self.start.naming)
        same = isinstance(trial.outcome, Failed) and self.start.match(trial.outcome.failure)
        return outcome.failure if same else None


def _oracle(
    bench: ProbeRunner, order: ReductionRequest, bad: Toolchain, good: Toolchain | None, start: Baseline, folder: Path
) -> Oracle:
    if order.metric and start.factor and good:
        return Growth(bench.prober, folder, bad, good, order.metric, start.factor, slipped=order.slipped)
    return Oracle(
        bench.prober,
        folder,
        bad,
        good,
        start.match,
        naming=start.naming,
        repeats=start.repeats,
        slipped=order.slipped,
    )


def _testable(probes: tuple[Probe, ...]) -> int:
    return sum(not isinstance(probe.outcome, Untestable) for probe in probes)


def _size(document: Program, content: bytes) -> Size:
    return Size(document.size, content.rstrip(b"\n").count(b"\n") + 1, len(content), document.unit)


def _line(failure: Failure) -> int | None:
    """The line of `file:line:column`."""
    parts = (failure.location or "").rsplit(":", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None
