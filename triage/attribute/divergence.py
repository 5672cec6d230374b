"""Compare two compilers over one case: probe both, follow their passes, look at what parts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from triage.attribute.align import AlignedPass, Located, Runs, judge_runs
from triage.attribute.excerpt import DumpText, files_of
from triage.attribute.ir_reader import DumpReader, IrReader, Lines, PassName, PrintedModule
from triage.attribute.result import Attribution, ComparedRun, ComparisonResult, Difference, Excerpt, PartedAt, PhaseComparison
from triage.attribute.structure import Structure
from triage.attribute.trace import FunctionState, Trace, Tracer, together
from triage.compilers.base import Invocation, Ir, Vocabulary
from triage.execution.judge import same_signature
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.execution import Ending, Execution
from triage.model.outcome import Failed, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Depth:
    """How much is looked at. phases: the program after each; excerpts: the IR at the parting; patience: seconds that one
    run which prints may take, by default as long as the case.
    """

    phases: bool = True
    excerpts: bool = True
    patience: float | None = None


def attribute(
    bench: ProbeRunner,
    case: Case,
    good: ToolchainRef,
    bad: ToolchainRef,
    repository: Repository | None = None,
    depth: Depth = Depth(),
) -> Attribution:
    """Where the compilers of two places part over a case. repository: a clone, to find the pass's source in.

    BadInput when the family's IR cannot be printed; EnvironmentFailure when there is no toolchain. Ctrl-C ends what runs.
    """
    ir = bench.prober.ir_of(case.compiler)
    if ir is None:
        raise BadInput(f"the IR of {case.compiler} cannot be printed")
    probes = {probe.revision.name: probe for probe in bench.probe_all([ProbeJob(case, good), ProbeJob(case, bad)], "attribute")}
    pair = (probes[good.revision.name], probes[bad.revision.name])
    begun = time.monotonic()
    if (wrong := _untellable(*pair)) is not None:
        return replace(wrong, case=case)
    toolchains = (bench.shed.obtain(good), bench.shed.obtain(bad))
    for toolchain in toolchains:
        if not ir.is_printed_by(toolchain):
            reason = f"{toolchain.revision.name} has no options that print the IR after each pass"
            return Attribution(case, *pair, ComparisonResult.INCONCLUSIVE, reason)
    limits = replace(case.limits, timeout=min(case.limits.timeout, depth.patience or case.limits.timeout))
    comparison = _Comparison(bench, replace(case, limits=limits), ir, pair, toolchains, repository)
    try:
        found = comparison.run(depth)
    except BaseException:
        bench.stop.set()  # the other side's run is not waited for
        raise
    return replace(found, case=case, seconds=round(time.monotonic() - begun, 2))


def _untellable(good: Probe, bad: Probe) -> Attribution | None:
    """The answer where there is nothing to compare."""
    told = Attribution(good.case, good, bad, ComparisonResult.INCONCLUSIVE)
    for probe in (good, bad):
        if isinstance(probe.outcome, Untestable):
            reason = f"{probe.revision.name} cannot be tested: {probe.outcome.reason}"
            return replace(told, reason=reason, cause=probe.outcome.cause)
    if isinstance(good.outcome, Failed):
        name, failure = good.revision.name, good.outcome.failure
        if not isinstance(bad.outcome, Failed):
            return replace(told, reason=f"{name} fails and {bad.revision.name} compiles: the good one comes with --good")
        if same_signature(failure)(bad.outcome.failure):
            return replace(told, reason=f"{name} fails as well, with the same failure: {failure.headline}")
    return None


class _Comparison:
    """The runs of one comparison and what they cost."""

    def __init__(
        self,
        bench: ProbeRunner,
        case: Case,
        ir: Ir,
        probes: tuple[Probe, Probe],
        toolchains: tuple[Toolchain, Toolchain],
        repository: Repository | None,
    ) -> None:
        self.bench, self.case, self.ir, self.probes = bench, case, ir, probes
        self.toolchains, self.repository = toolchains, repository
        self.compiles = self.printed = 0
        self._lock = threading.Lock()  # of the two counts: both sides run at once
        self.notes: list[str] = []

    def run(self, depth: Depth) -> Attribution:
        """Traces first, as all else goes by them."""
        (good, good_run), (bad, bad_run) = self._both(self._trace)
        runs = Runs(good, bad, self.ir.words.passes, (_broke_off(good, good_run), _broke_off(bad, bad_run)), self._named())
        judged = judge_runs(runs)
        finding = ComparisonResult.PARTED if judged.lasting else ComparisonResult.SAME
        if finding is ComparisonResult.SAME and isinstance(self.probes[1].outcome, Failed):
            finding = ComparisonResult.FAILING
        lasting = self._parted(judged.lasting) if judged.lasting else None
        if lasting and judged.lasting and depth.excerpts:
            lasting = replace(lasting, excerpt=self._excerpt(judged.lasting, (good, bad)))
        told = Attribution(
            self.case,
            *self.probes,
            finding,
            failing=_failing_pass(bad, self.probes[1]),
            function=(judged.good, judged.bad),
            lasting=lasting,
            first=self._parted(judged.first) if judged.first else None,
            decided=(decided := self._parted(judged.decided) if judged.decided else None),
            phases=tuple(compare_phases(self._phases(), self._print, self.ir.words)) if depth.phases else (),
            shared=(_shared(good, judged.good), _shared(bad, judged.bad)),
        )
        if lasting:
            files = tuple(dict.fromkeys((*lasting.files, *(decided.files if decided else ()))))
        else:
            files = self._files(told.failing) if told.failing else ()
        return replace(told, files=files, notes=tuple(self.notes), compiles=self.compiles, printed=self.printed)

    def _both(self, work: Callable[[Toolchain], T]) -> tuple[T, T]:
        """The same on both sides, at once where the machine may do two things."""
        with self.bench.threads(2) as pool:
            good, bad = (pool.submit(work, one) for one in self.toolchains)
            return good.result(), bad.result()

    def _count(self, compiles: int = 0, printed: int = 0) -> None:
        with self._lock:
            self.compiles += compiles
            self.printed += printed

    def _watch(
        self, toolchain: Toolchain, alter: Callable[[Invocation], Invocation], hear: Callable[[bytes], None]
    ) -> Execution:
        def count(data: bytes) -> None:
            self._count(printed=len(data))
            hear(data)

        self._count(compiles=1)
        done = self.bench.prober.observe(self.case, toolchain, alter, on_stderr=count)
        assert isinstance(done, Execution)  # both were probed
        return done

    def _trace(self, toolchain: Toolchain) -> tuple[Trace, Execution]:
        tracer = Tracer()
        reader = DumpReader(self.ir.words, tracer.take)
        done = self._watch(toolchain, self.ir.after_passes, reader.feed)
        if done.ending in (Ending.TIMED_OUT, Ending.OVER_MEMORY):
            self.notes.append(
                f"{toolchain.revision.name}: the run that printed the IR was ended at its limit ({done.ending.value}) "
                f"after {done.seconds:.0f} s; passes are compared up to there"
            )
        return tracer.trace, done

    def _parted(self, at: Located) -> PartedAt:
        step = at.step
        by = ComparedRun(step.good.by if step.good else None, step.bad.by if step.bad else None)
        good, bad = (state.structure if state else Structure() for state in step.after)
        here, there = good.operations, bad.operations
        counted = (Difference(name, str(here.get(name, 0)), str(there.get(name, 0))) for name in sorted({*here, *there}))
        return PartedAt(
            by,
            at.bad,
            operations=tuple(one for one in counted if one.good != one.bad),
            choices=tuple(Difference(*choice) for choice in good.choices_against(bad)),
            files=self._files(by.pass_name),
        )

    def _excerpt(self, at: Located, traces: tuple[Trace, Trace]) -> Excerpt | None:
        """Both sides' IR after the parting, from a second run of each that prints that pass alone."""
        names = (at.good, at.bad) if at.bad else (_only_changed(traces[1], at.step),) * 2
        wanted = [_shown(trace, name, state) for trace, name, state in zip(traces, names, at.step.after, strict=True)]
        texts = [DumpText(state.by, state.turn, name) if state else None for state, name in zip(wanted, names, strict=True)]
        side = dict(zip((toolchain.identity for toolchain in self.toolchains), texts, strict=True))

        def read(toolchain: Toolchain) -> None:
            text = side[toolchain.identity]
            if text is not None and text.by.argument:
                self._watch(toolchain, lambda one: self.ir.after_passes(one, text.by.argument, generic=False), text.feed)

        self._both(read)
        good, bad = ((text.text, text.cut) if text else ([], False) for text in texts)
        return Excerpt(tuple(good[0]), tuple(bad[0]), good[1] or bad[1]) if good[0] or bad[0] else None

    def _files(self, by: PassName) -> tuple[str, ...]:
        return files_of(by, self.repository, self.toolchains[1].revision.commit, self.ir.words.sources)

    def _phases(self) -> tuple[str, ...]:
        """The phases both have, up to the one that fails or the one the case ends with."""
        outcome = self.probes[1].outcome
        last = (outcome.failure.phase if isinstance(outcome, Failed) else None) or self.case.phase
        good, bad = (self.ir.phases(toolchain, last) for toolchain in self.toolchains)
        return tuple(phase for phase in good if phase in bad)

    def _print(self, phase: str) -> tuple[PrintedModule | None, PrintedModule | None]:
        def printed(toolchain: Toolchain) -> PrintedModule | None:
            found: list[PrintedModule | None] = []

            def keep(path: Path) -> None:
                found.append(read_module(path, self.ir.words))

            self._count(compiles=1)
            self.bench.prober.observe(self.case, toolchain, lambda one: self.ir.up_to(one, phase), on_output=keep)
            return found[0] if found else None

        return self._both(printed)

    def _named(self) -> str:
        """What the failure says, where a function may be named."""
        outcome = self.probes[1].outcome
        if not isinstance(outcome, Failed):
            return ""
        return " ".join([outcome.failure.headline, *(str(value) for value in outcome.failure.details.values())])


def _broke_off(trace: Trace, run: Execution) -> bool:
    """Whether passes are missing at the end of a trace."""
    return trace.failed is not None or run.ending is not Ending.EXITED


def _failing_pass(trace: Trace, probe: Probe) -> PassName | None:
    """The innermost pass that failed, as it was printed, or as a crash named it."""
    if trace.failed is not None:
        return trace.failed.by
    name = probe.outcome.failure.failing_pass if isinstance(probe.outcome, Failed) else None
    return PassName(name) if name else None


def _only_changed(trace: Trace, step: AlignedPass) -> str | None:
    """The program's function that a step changed, where it was one alone; None for the program."""
    state = step.after[1]
    changed = [
        name
        for name, states in trace.functions.items()
        if name not in trace.device and any(state and one.index == state.index for one in states)
    ]
    return changed[0] if len(changed) == 1 else None


def _shown(trace: Trace, function: str | None, state: FunctionState | None) -> FunctionState | None:
    """The dump in which a function's IR of that time was printed."""
    if state is None or function is None:
        return state
    known = [one for one in trace.functions.get(function, ()) if one.index <= state.index and not one.failed]
    return known[-1] if known else state


def _shared(trace: Trace, function: str | None) -> int | None:
    """The bytes of shared memory that a function has in the end, before its buffers are lowered to pointers."""
    states = trace.functions.get(function or "")
    if not states:
        return None
    return next((state.structure.shared for state in reversed(states) if state.structure.shared), 0)


_SHOWN = 12
_PIECE = 1 << 20

Print = Callable[[str], tuple[PrintedModule | None, PrintedModule | None]]
"""Prints the program of both sides up to a phase; None where a side does not get there."""


def compare_phases(phases: Sequence[str], both: Print, words: Vocabulary) -> Iterator[PhaseComparison]:
    """Each phase in order, until no side gets there."""
    for phase in phases:
        modules = both(phase)
        good, bad = (_meaning(module) if module else None for module in modules)
        if good is None and bad is None:
            return
        yield PhaseComparison(
            phase,
            _counts(good, words) if good else None,
            _counts(bad, words) if bad else None,
            good.same_as(bad) if good and bad else None,
            _differences(good, bad) if good and bad else (),
        )
        if good is None or bad is None:
            return


def read_module(path: Path, words: Vocabulary) -> PrintedModule | None:
    """The program a file holds, read in pieces; None where it holds none, as a binary does."""
    found: list[PrintedModule] = []
    reader = IrReader(words, found.append, spell=True)
    lines = Lines(reader.line)
    with path.open("rb") as source:
        while piece := source.read(_PIECE):
            lines.feed(piece)
    lines.finish()
    return found[0] if found else None


def _meaning(module: PrintedModule) -> Structure:
    """Its functions together. What stands around them, such as the description of a target, is spelled anew by versions."""
    whole = together(module.functions.values())
    return Structure(whole.print_, module.whole.operations, whole.choices, whole.shared, module.whole.spelled)


def _counts(structure: Structure, words: Vocabulary) -> Mapping[str, int]:
    return {name: sum(structure.operations.get(one, 0) for one in kinds) for name, kinds in words.counts.items()}


def _differences(good: Structure, bad: Structure) -> tuple[Difference, ...]:
    if good.same_as(bad):
        return ()
    here, there = Counter(good.spelled), Counter(bad.spelled)
    names = sorted(here.keys() | there.keys(), key=lambda name: (-abs(here[name] - there[name]), name))
    counted = [Difference(name, str(here[name]), str(there[name])) for name in names if here[name] != there[name]]
    chosen = [Difference(*choice) for choice in good.choices_against(bad)]
    return tuple([*chosen, *counted][:_SHOWN])
