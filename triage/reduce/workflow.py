"""From a case that fails to a small program that fails the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from triage.model.case import Case, Input, InputKind
from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.inputs import Prepared
from triage.probe.judge import Match
from triage.probe.metric import Metric, Reading, value_of
from triage.probe.prober import Naming
from triage.probe.reading import Reader
from triage.probe.workbench import Job, Workbench
from triage.reduce.draft import Draft
from triage.reduce.ends import Baseline, baseline
from triage.reduce.format import Format
from triage.reduce.growth import Growth, grown
from triage.reduce.loop import checked, reduce_to_fixpoint
from triage.reduce.mlir.format import MlirFormat
from triage.reduce.oracle import Oracle
from triage.reduce.plain.format import TextFormat
from triage.reduce.reduction import Reduction
from triage.reduce.result import Effort, NotReproducible, Reduced, Size
from triage.reduce.state import State
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.shed import Place

_PATIENCE = 4.0  # times the original's compile, for a draft
_LEAST = 10.0  # seconds
_MOST_HANGING = 30.0  # seconds for a draft of a program that was stopped for its time


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be reduced. match: what counts as the same failure, made from the one that is found; repeats: compiles
    of a draft before it is believed to pass, None to choose; metric: the number that grew, where nothing fails;
    slipped: a folder for programs that fail otherwise, made if need be.
    """

    case: Case
    bad: Place
    good: Place | None
    match: Callable[[Failure], Match]
    repeats: int | None = None
    resume: bool = False
    metric: Metric | None = None
    slipped: Path | None = None


def reduce_case(bench: Workbench, order: Order) -> Reduced | NotReproducible:
    """Reduce a case. Interrupted at any moment, the best draft is on disk and `resume` goes on from it."""
    started = time.monotonic()
    bad = bench.shed.obtain(order.bad)
    good = bench.shed.obtain(order.good) if order.good else None
    factor = 0.0
    if order.metric:
        measured = grown(bench.prober, order.case, bad, good, order.metric)
        start, factor = measured if isinstance(measured, tuple) else (measured, factor)
    else:
        start = baseline(bench, order.case, bad, good, order.match, order.repeats)
    if isinstance(start, NotReproducible):
        return start
    with ExitStack() as stack:
        work = _Work(bench, order, bad, good, start, factor, stack)
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
        bench: Workbench,
        order: Order,
        bad: Toolchain,
        good: Toolchain | None,
        start: Baseline,
        factor: float,
        stack: ExitStack,
    ) -> None:
        self.bench, self.order, self.bad, self.start = bench, order, bad, start
        identity = (order.case.name, self.bad.identity, good.identity if good else "", start.failure.signature)
        self.state = State(bench.shed.home, "\0".join(identity))
        if order.slipped:
            with disk_errors("keep programs that fail otherwise"):
                order.slipped.mkdir(parents=True, exist_ok=True)
        kind = Growth if order.metric else Oracle
        self.oracle = kind(
            bench.prober,
            self.state.drafts,
            self.bad,
            good,
            start.match,
            naming=start.naming,
            repeats=start.repeats,
            slipped=order.slipped,
        )
        if isinstance(self.oracle, Growth) and order.metric:
            self.oracle.metric, self.oracle.factor = order.metric, factor
        self.format, self.notes = _format(bench, order.case, self.bad)
        stack.callback(self.format.close)
        task = bench.progress.task(f"reduce  {order.case.name}", total=None)
        stack.callback(task.finish)
        self.reduction = Reduction(self.oracle, self.format.valid, self.state.keep, bench.jobs, task)
        stack.callback(self.reduction.close)

    def open(self) -> tuple[Draft, Draft, int | None] | NotReproducible:
        """The original in a form that can be changed, the draft to go on from, and the line of the original where the
        compiler pointed, which is None when the draft is not the original.
        """
        prepared = self.bench.prober.input_of(self.order.case)
        assert isinstance(prepared, Prepared)  # it was compiled
        case = self._hurried(self.order.case)
        onnx = self.order.case.input.kind is InputKind.ONNX  # worked on as it is, before it is imported
        source = self.order.case.input.path if onnx else prepared.path
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
            small = self._as_case(case, draft.document.kind, content)
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
            before=_size(original.document.size, original.document.content),
            after=_size(draft.document.size, chosen[0]),
            effort=Effort(
                calls=tally.calls + self.start.calls,
                cached=tally.cached + self.start.known,
                invalid=self.reduction.invalid,
                seconds=time.monotonic() - started,
                compile_seconds=tally.seconds,
            ),
            evidence=chosen[1],
            others=tuple(self.oracle.slipped_on()),
            notes=(*self.start.notes, *self.notes),
        )

    def _everywhere(self, small: Case) -> tuple[Probe, ...]:
        """Probes of a program on every version at hand, in the order of their versions."""
        asked = (self.order.bad, *([self.order.good] if self.order.good else []))
        places = {place.revision.name: place for place in (*self.bench.shed.at_hand(small.compiler), *asked)}
        jobs = [Job(small, place) for place in places.values()]
        found = {probe.revision.name: probe for probe in self.bench.probe_all(jobs, "probe the reduced program")}
        if self.order.metric:
            reading = self._reading(self.order.metric, found)
            found = {name: reading(self.bench.prober, self.bench.shed.obtain(places[name]), found[name]) for name in places}
        return tuple(found[name] for name in places)

    def _reading(self, metric: Metric, found: Mapping[str, Probe]) -> Reading:
        """The number above which the reduced program counts as failing: halfway, as a factor, between the two toolchains."""
        assert self.oracle.good
        values = [value_of(found[one.revision.name], metric) or 0.0 for one in (self.bad, self.oracle.good)]
        return Reading(metric, math.sqrt(values[0] * values[1]))

    def _as_case(self, case: Case, kind: InputKind, content: bytes) -> Case:
        # What is known of a path is remembered, so that each content has a path of its own.
        path = self.state.folder / f"reduced-{sha256(content).hexdigest()[:12]}.{kind.value}"
        with disk_errors("write the reduced program"):
            write_whole(path, content)
        return replace(case, name=f"{case.name} (reduced)", input=Input(path, kind), expect=())

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


def _testable(probes: tuple[Probe, ...]) -> int:
    return sum(not isinstance(probe.outcome, Untestable) for probe in probes)


def _size(operations: int, content: bytes) -> Size:
    return Size(operations, content.rstrip(b"\n").count(b"\n") + 1, len(content))


def _line(failure: Failure) -> int | None:
    """The line of `file:line:column`."""
    parts = (failure.location or "").rsplit(":", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _format(bench: Workbench, case: Case, toolchain: Toolchain) -> tuple[Format, tuple[str, ...]]:
    """How the case's input is worked on, and what is to be said about that."""
    if case.input.kind is InputKind.ONNX:
        from triage.reduce.onnx.format import OnnxFormat  # slow to import, and seldom needed

        return OnnxFormat(), ()
    tools = bench.prober.mlir_tools(case, toolchain)
    prepared = bench.prober.input_of(case)
    assert isinstance(prepared, Prepared)  # it was compiled
    if tools is not None:
        reader = Reader(tools, bench.stop)
        if reader.readable(prepared.path):
            return MlirFormat(reader, *_newest_reader(bench, case, toolchain, prepared.path)), ()
        reader.close()
    suffix = prepared.path.suffix.lstrip(".")
    kind = InputKind(suffix) if suffix in {one.value for one in InputKind} else InputKind.OTHER
    note = "no tool of this toolchain reads the input: it was reduced as plain text, by blocks and lines"
    return TextFormat(kind), (note,)


def _newest_reader(bench: Workbench, case: Case, toolchain: Toolchain, path: Path) -> Iterator[Reader]:
    """The tools of the newest release at hand, where they read the input: what is reduced shall be of use there as well,
    and newer verifiers refuse programs that older ones let pass.
    """
    places = bench.shed.at_hand(case.compiler)
    newest = bench.shed.obtain(places[-1]) if places else toolchain
    tools = bench.prober.mlir_tools(case, newest) if newest.identity != toolchain.identity else None
    if tools is not None:
        reader = Reader(tools, bench.stop)
        if reader.readable(path):
            yield reader
        else:
            reader.close()
