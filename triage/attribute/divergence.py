"""Find the pass after which the IR of two compilers diverges over one case."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from triage.attribute.align import (
    AlignedPass,
    FollowedDivergence,
    FunctionState,
    LocatedPass,
    Trace,
    TracePair,
    Tracer,
    follow,
    one_sided_passes,
)
from triage.attribute.excerpt import DumpText, source_files
from triage.attribute.result import Attribution, ComparisonResult, Difference, DivergingPass, Excerpt, PhaseComparison
from triage.compilers.analysis import Ir
from triage.compilers.invocation import Invocation
from triage.execution.engine import Engine
from triage.execution.judge import same_signature
from triage.execution.scheduler import ProbeJob
from triage.git_history import Repository
from triage.mlir.fingerprint import UNBOUNDED, Fingerprint, Vocabulary, combined
from triage.mlir.ir_reader import DumpReader, PassName, PrintedModule, read_printed
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted, TriageError
from triage.model.execution import Ending, Execution, Stage
from triage.model.outcome import Failed, Failure, Probe, Untestable
from triage.model.progress import ProgressTask
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

T = TypeVar("T")
_MAX_DIFFERENCES = 12  # of one phase


@dataclass(frozen=True, slots=True)
class Depth:
    """How much to compare. `patience`: seconds for each compile that prints IR; None for the case's own limit."""

    phases: bool = True
    excerpts: bool = True
    patience: float | None = None


def attribute(
    runner: Engine,
    case: Case,
    good: ToolchainRef,
    bad: ToolchainRef,
    repository: Repository | None = None,
    depth: Depth = Depth(),
    kernel: str | None = None,
) -> Attribution:
    """Find where two compilers diverge over a case.

    `repository` is a clone of the compiler, to find the pass's source in. `kernel`: the executable whose functions are
    followed, None for the one that the failure names.

    Raises:
        BadInput: The family's IR cannot be printed.
        EnvironmentFailure: A toolchain cannot be obtained.
    """
    ir = runner.compilers[case.compiler].ir
    if ir is None:
        raise BadInput(f"the IR of {case.compiler} cannot be printed")
    jobs = [ProbeJob(case, good), ProbeJob(case, bad)]
    probes = {probe.revision.name: probe for probe in runner.probe_all(jobs, "attribute")}
    pair = (probes[good.revision.name], probes[bad.revision.name])
    started = time.monotonic()
    names = (case.name, pair[0].revision, pair[1].revision)
    if (inconclusive := _not_comparable(*pair)) is not None:
        return inconclusive
    toolchains = (runner.registry.obtain(good), runner.registry.obtain(bad))
    for toolchain in toolchains:
        if not ir.is_printed_by(toolchain):
            reason = f"{toolchain.revision.name} has no options that print the IR after each pass"
            return Attribution(*names, ComparisonResult.INCONCLUSIVE, reason)
    limits = replace(case.limits, timeout=min(case.limits.timeout, depth.patience or case.limits.timeout))
    task = runner.progress.task(f"attribute  {case.name}")
    comparison = _Comparison(runner, task, replace(case, limits=limits), ir, pair, toolchains, repository, kernel)
    try:
        found = comparison.run(depth)
    except BaseException as error:
        if not isinstance(error, TriageError) or isinstance(error, Interrupted):
            runner.stop.set()  # also end the run of the other side
        raise
    finally:
        task.finish()
    return replace(found, seconds=round(time.monotonic() - started, 2))


def _not_comparable(good: Probe, bad: Probe) -> Attribution | None:
    """Return the answer if there is nothing to compare."""
    answer = Attribution(good.case.name, good.revision, bad.revision, ComparisonResult.INCONCLUSIVE)
    for probe in (good, bad):
        if isinstance(probe.outcome, Untestable):
            reason = f"{probe.revision.name} cannot be tested: {probe.outcome.reason}"
            return replace(answer, reason=reason, cause=probe.outcome.cause)
    if isinstance(good.outcome, Failed):
        name, failure = good.revision.name, good.outcome.failure
        if not isinstance(bad.outcome, Failed):
            return replace(answer, reason=f"{name} fails and {bad.revision.name} does not; exchange --good and --bad")
        if same_signature(failure)(bad.outcome.failure):
            return replace(answer, reason=f"{name} fails too, with the same failure: {failure.headline}")
    return None


class _Comparison:
    """The compiles of one comparison and their cost."""

    def __init__(
        self,
        runner: Engine,
        task: ProgressTask,
        case: Case,
        ir: Ir,
        probes: tuple[Probe, Probe],
        toolchains: tuple[Toolchain, Toolchain],
        repository: Repository | None,
        kernel: str | None,
    ) -> None:
        self.runner, self.task, self.case, self.ir, self.probes = runner, task, case, ir, probes
        self.toolchains, self.repository, self.kernel = toolchains, repository, kernel
        outcome = probes[1].outcome
        self.failure = outcome.failure if isinstance(outcome, Failed) else None
        self.compiles = self.printed = 0
        self._lock = threading.Lock()  # guards the two counts: both sides run at the same time
        self.notes: list[str] = []

    def run(self, depth: Depth) -> Attribution:
        """Trace both sides, then compare."""
        words = replace(self.ir.words, followed=self._failing_operation())
        good, bad, found = self._followed(words)
        for what, finer in self._finer(words):
            if found.persistent is None:
                self.notes.append(f"no difference of operations or types persists, so {what} were compared as well")
                good, bad, found = self._followed(finer)
        status = ComparisonResult.DIVERGES if found.persistent else ComparisonResult.SAME
        if status is ComparisonResult.SAME and self.failure:
            status = ComparisonResult.FAILING
        persistent, first, decided = (
            self._diverging(located) if located else None for located in (found.persistent, found.first, found.decided)
        )
        if persistent and found.persistent and depth.excerpts:
            persistent = replace(persistent, excerpt=self._excerpt(found.persistent, (good, bad)))
        failing = _failing_pass(bad, self.failure)
        if persistent:
            files = tuple(dict.fromkeys((*persistent.files, *(decided.files if decided else ()))))
        else:
            files = self._files(failing) if failing else ()
        phases = tuple(self._compare_phases()) if depth.phases else ()
        shared = _reported_bytes(self.failure) or _shared_bytes(bad, found.bad)
        return Attribution(
            self.case.name,
            self.probes[0].revision,
            self.probes[1].revision,
            status,
            failure=self.failure,
            failing=failing,
            function={"good": found.good, "bad": found.bad},
            persistent=persistent,
            first=first,
            decided=decided,
            one_sided=found.one_sided,
            phases=phases,
            shared_memory_bytes={"good": _shared_bytes(good, found.good), "bad": shared},
            files=files,
            notes=tuple(self.notes),
            compiles=self.compiles,
            printed_bytes=self.printed,
        )

    def _followed(self, words: Vocabulary) -> tuple[Trace, Trace, FollowedDivergence]:
        """Trace both sides, and find where they diverge in these words."""
        (good, good_run), (bad, bad_run) = self._both(partial(self._trace, words=words))
        ended_early = (_ended_early(good, good_run), _ended_early(bad, bad_run))
        traces = TracePair(good, bad, words.passes, ended_early, self._failure_text(), self.kernel)
        return good, bad, replace(follow(traces), one_sided=one_sided_passes(traces))

    def _finer(self, words: Vocabulary) -> Iterator[tuple[str, Vocabulary]]:
        """Yield what else to compare, in which words, if no difference persists and the bad side compiles."""
        if self.failure and self.failure.stage in (Stage.RUN, Stage.COMPARE, Stage.BENCHMARK):
            yield "constants and attributes", replace(words, detailed=True)
        elif self.failure:
            return
        yield "computations of sizes and offsets", replace(words, bookkeeping=None)

    def _both(self, work: Callable[[Toolchain], T]) -> tuple[T, T]:
        """Run the same work for both sides, in parallel if there are two workers."""
        with self.runner.threads(2) as pool:
            good, bad = (pool.submit(work, toolchain) for toolchain in self.toolchains)
            return good.result(), bad.result()

    def _count(self, compiles: int = 0, printed: int = 0) -> None:
        with self._lock:
            self.compiles += compiles
            self.printed += printed

    def _compile(
        self, toolchain: Toolchain, alter: Callable[[Invocation], Invocation], on_data: Callable[[bytes], None]
    ) -> Execution:
        def count(data: bytes) -> None:
            self._count(printed=len(data))
            on_data(data)

        self._count(compiles=1)
        self.task.describe(f"attribute  {self.case.name} on {toolchain.revision.name}, {self.compiles} compiles")
        execution = self.runner.observe(self.case, toolchain, alter, on_stderr=count)
        assert isinstance(execution, Execution)  # both sides are testable
        return execution

    def _trace(self, toolchain: Toolchain, words: Vocabulary) -> tuple[Trace, Execution]:
        tracer = Tracer()
        reader = DumpReader(words, tracer.take)
        execution = self._compile(toolchain, self.ir.after_passes, reader.feed)
        if execution.ending in (Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT):
            self.notes.append(
                f"{toolchain.revision.name}: the compile that prints the IR reached its limit ({execution.ending.value}) "
                f"after {execution.seconds:.0f} s; later passes are not compared"
            )
        return tracer.trace, execution

    def _diverging(self, located: LocatedPass) -> DivergingPass:
        aligned = located.aligned
        good_pass, bad_pass = (state.after if state else None for state in (aligned.good, aligned.bad))
        good, bad = (state.fingerprint if state else Fingerprint() for state in aligned.states_after)
        here, there = good.operations, bad.operations
        counts = (Difference(name, str(here.get(name, 0)), str(there.get(name, 0))) for name in sorted({*here, *there}))
        found = DivergingPass(
            good_pass,
            bad_pass,
            located.bad,
            operations=tuple(count for count in counts if count.good != count.bad),
            choices=tuple(Difference(*choice) for choice in good.choice_differences(bad)),
        )
        return replace(found, files=self._files(found.pass_name))

    def _excerpt(self, located: LocatedPass, traces: tuple[Trace, Trace]) -> Excerpt | None:
        """Compile both sides again, print only the diverging pass, and keep the IR after it."""
        aligned = located.aligned
        names = (located.good, located.bad) if located.bad else (_only_changed(traces[1], aligned),) * 2
        states = [
            _printed_state(trace, name, state) for trace, name, state in zip(traces, names, aligned.states_after, strict=True)
        ]
        texts = [DumpText(state.after, state.turn, name) if state else None for state, name in zip(states, names, strict=True)]
        by_toolchain = dict(zip((toolchain.identity for toolchain in self.toolchains), texts, strict=True))

        def read(toolchain: Toolchain) -> None:
            text = by_toolchain[toolchain.identity]
            if text is not None and text.after.argument:
                argument = text.after.argument
                self._compile(toolchain, lambda plain: self.ir.after_passes(plain, argument, generic=False), text.feed)

        self._both(read)
        good, bad = ((text.text, text.cut) if text else ([], False) for text in texts)
        return Excerpt(tuple(good[0]), tuple(bad[0]), good[1] or bad[1]) if good[0] or bad[0] else None

    def _files(self, name: PassName) -> tuple[str, ...]:
        return source_files(name, self.repository, self.toolchains[1].revision.commit, self.ir.words.sources)

    def _phases(self) -> tuple[str, ...]:
        """Return the phases that both have, up to the failing one or the last one of the case."""
        last = (self.failure.phase if self.failure else None) or self.case.phase
        good, bad = (self.ir.phases(toolchain, last) for toolchain in self.toolchains)
        return tuple(phase for phase in good if phase in bad)

    def _print(self, toolchain: Toolchain, phase: str) -> PrintedModule | None:
        """Print the program after a phase; None if the compile does not get there."""
        found: list[PrintedModule | None] = []

        def keep(path: Path) -> None:
            found.append(read_printed(path, self.ir.words))

        self._count(compiles=1)
        self.task.describe(f"attribute  {self.case.name} on {toolchain.revision.name}: {phase}")
        self.runner.observe(self.case, toolchain, lambda plain: self.ir.up_to(plain, phase), on_output=keep)
        return found[0] if found else None

    def _compare_phases(self) -> Iterator[PhaseComparison]:
        """Compare the program after each phase in order, until a side does not get there."""
        for phase in self._phases():
            modules = self._both(partial(self._print, phase=phase))
            good, bad = (_functions_only(module) if module else None for module in modules)
            if good is None and bad is None:
                return
            yield PhaseComparison(
                phase,
                self._counts(good) if good else None,
                self._counts(bad) if bad else None,
                good.same_as(bad) if good and bad else None,
                _differences(good, bad) if good and bad else (),
            )
            if good is None or bad is None:
                return

    def _counts(self, fingerprint: Fingerprint) -> Mapping[str, int]:
        counted = self.ir.words.counts.items()
        return {name: sum(fingerprint.operations.get(operation, 0) for operation in operations) for name, operations in counted}

    def _failing_operation(self) -> str | None:
        """Return the operation that the failure names, unless it is a function."""
        name = self.failure.details.get("op") if self.failure else None
        return name if isinstance(name, str) and name not in self.ir.words.functions else None

    def _failure_text(self) -> str:
        """Return the parts of the failure that may name a function."""
        if self.failure is None:
            return ""
        return " ".join([self.failure.headline, *(str(value) for value in self.failure.details.values())])


def _ended_early(trace: Trace, execution: Execution) -> bool:
    return trace.failed is not None or execution.ending is not Ending.EXITED


def _failing_pass(trace: Trace, failure: Failure | None) -> PassName | None:
    """Return the innermost pass that failed, from the dumps or as a crash names it."""
    if trace.failed is not None:
        return trace.failed.after
    return PassName(failure.failing_pass) if failure and failure.failing_pass else None


def _only_changed(trace: Trace, aligned: AlignedPass) -> str | None:
    """Return the program's function that a pass changed, if it is the only one; None for the program."""
    state = aligned.states_after[1]
    changed = [
        name
        for name, states in trace.functions.items()
        if name not in trace.device and any(state and other.index == state.index for other in states)
    ]
    return changed[0] if len(changed) == 1 else None


def _printed_state(trace: Trace, function: str | None, state: FunctionState | None) -> FunctionState | None:
    """Return the state whose dump printed a function's IR at that time."""
    if state is None or function is None:
        return state
    known = [other for other in trace.functions.get(function, ()) if other.index <= state.index and not other.failed]
    return known[-1] if known else state


def _reported_bytes(failure: Failure | None) -> int | None:
    """Return the shared memory that the compiler itself says is too much."""
    used = failure.details.get("bytes_used") if failure and failure.failure_class == "shared-memory-overflow" else None
    return used if isinstance(used, int) and used > 0 else None


def _shared_bytes(trace: Trace, function: str | None) -> int | None:
    """Return the shared memory of a function at the end, before its buffers become pointers; None if it is not known."""
    states = trace.functions.get(function or "")
    if not states:
        return None
    last = next((state.fingerprint.shared_bytes for state in reversed(states) if state.fingerprint.shared_bytes), 0)
    return last if last < UNBOUNDED else None


def _functions_only(module: PrintedModule) -> Fingerprint:
    """Combine the functions: versions spell what surrounds them, such as target descriptions, differently."""
    functions = combined(module.functions.values())
    return replace(functions, operations=module.whole.operations, typed_counts=module.whole.typed_counts)


def _differences(good: Fingerprint, bad: Fingerprint) -> tuple[Difference, ...]:
    if good.same_as(bad):
        return ()
    here, there = Counter(good.typed_counts), Counter(bad.typed_counts)
    names = sorted(here.keys() | there.keys(), key=lambda name: (-abs(here[name] - there[name]), name))
    counts = [Difference(name, str(here[name]), str(there[name])) for name in names if here[name] != there[name]]
    choices = [Difference(*choice) for choice in good.choice_differences(bad)]
    return tuple([*choices, *counts][:_MAX_DIFFERENCES])
