"""Find the pass after which the IR of two compilers diverges over one case."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from triage.attribute.align import (
    AlignedPass,
    Divergence,
    FunctionState,
    Trace,
    TracePair,
    find_divergence,
)
from triage.attribute.excerpt import DumpText, source_files
from triage.attribute.kept_ir import IrCollector, KeptIr, PrintedIr, key_of_ir
from triage.attribute.result import (
    Attribution,
    ComparisonResult,
    Difference,
    DivergingPass,
    Excerpt,
)
from triage.compilers.invocation import Invocation
from triage.compilers.parts import IrPrinter, PassTrace
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob, Task
from triage.git_history.repository import Repository
from triage.mlir.fingerprint import Vocabulary
from triage.mlir.ir_reader import DumpReader
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted, TriageError
from triage.model.execution import Ending, Execution, Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.pass_name import PassName
from triage.model.progress import ProgressTask
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

T = TypeVar("T")
_UNBOUNDED = (1 << 63) - 1  # the size of a buffer with an unbounded dimension


@dataclass(frozen=True)
class AttributionRequest:
    """A case to compare on two compilers, and how closely."""

    case: Case
    good: ToolchainRef
    bad: ToolchainRef
    repository: Repository | None = None
    """A clone of the compiler, to find the source of the pass in."""
    excerpts: bool = True
    """Compile again to print the IR after the pass."""
    patience: float = math.inf
    """Seconds for each compile that prints IR, if less than the case's own limit."""
    kernel: str | None = None
    """The executable whose functions are followed (default: the one that the failure
    names).
    """


def attribute(engine: Engine, request: AttributionRequest) -> Attribution:
    """Find where two compilers diverge over a case.

    Raises:
        BadInput: The family's passes cannot be printed.
        EnvironmentFailure: A toolchain cannot be obtained.
    """
    case, refs = request.case, (request.good, request.bad)
    printer = _printer_of(engine, case)
    good, bad = _probe_both(engine, case, refs)
    started = time.monotonic()
    names = (case.name, good.revision, bad.revision)
    problem = _why_not_comparable(good, bad)
    if problem is not None:
        return Attribution(*names, ComparisonResult.INCONCLUSIVE, problem)
    toolchains = (engine.registry.obtain(refs[0]), engine.registry.obtain(refs[1]))
    for toolchain in toolchains:
        if not printer.is_supported_by(toolchain):
            name = toolchain.revision.name
            why = f"{name} has no options that print the IR after each pass"
            problem = NoAnswer(Cause.NOT_FOUND, why)
            return Attribution(*names, ComparisonResult.INCONCLUSIVE, problem)
    timeout = min(case.limits.timeout, request.patience)
    timed = replace(case, limits=replace(case.limits, timeout=timeout))
    request = replace(request, case=timed)
    task = engine.progress.task(f"attribute  {case.name}")
    comparison = _Comparison(engine, task, request, printer, (good, bad), toolchains)
    try:
        found = comparison.run()
    except BaseException as error:
        if not isinstance(error, TriageError) or isinstance(error, Interrupted):
            engine.stop.set()  # also end the run of the other side
        raise
    finally:
        task.finish()
    return replace(
        found,
        notes=(*found.notes, *comparison.notes),
        compiles=comparison.compiles,
        printed_bytes=comparison.printed,
        seconds=round(time.monotonic() - started, 2),
    )


def _probe_both(
    engine: Engine, case: Case, refs: tuple[ToolchainRef, ToolchainRef]
) -> tuple[Probe, Probe]:
    jobs = [ProbeJob(case, ref) for ref in refs]
    probes = {
        probe.revision.name: probe for probe in engine.probe_all(jobs, "attribute")
    }
    good, bad = (probes[ref.revision.name] for ref in refs)
    return good, bad


def _printer_of(engine: Engine, case: Case) -> PassTrace:
    family = engine.compilers[case.compiler]
    if family.passes is None:
        raise BadInput(
            f"{family.title or family.name} does not print its passes, so none can be "
            "named; `triage bisect` finds the release or commit, and `triage suspects` "
            "ranks the commits in between"
        )
    return family.passes


def _why_not_comparable(good: Probe, bad: Probe) -> NoAnswer | None:
    for probe in (good, bad):
        if isinstance(probe.outcome, NoAnswer):
            why = f"{probe.revision.name} cannot be tested: {probe.outcome.reason}"
            return NoAnswer(probe.outcome.cause, why)
    if isinstance(good.outcome, Failed):
        name, failure = good.revision.name, good.outcome.failure
        if not isinstance(bad.outcome, Failed):
            why = f"{name} fails and {bad.revision.name} does not"
            return NoAnswer(Cause.NOT_FOUND, f"{why}; exchange --good and --bad")
        if same_signature(failure)(bad.outcome.failure):
            why = f"{name} fails too, with the same failure: {failure.headline}"
            return NoAnswer(Cause.NOT_FOUND, why)
    return None


@dataclass
class _Comparison:
    engine: Engine
    task: ProgressTask
    request: AttributionRequest
    printer: PassTrace
    probes: tuple[Probe, Probe]
    toolchains: tuple[Toolchain, Toolchain]
    compiles: int = 0
    printed: int = 0
    notes: list[str] = field(default_factory=list)
    unprinted: NoAnswer | None = None
    """Why a compiler prints no IR."""
    # guards the two counts: both compilers run at the same time
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def case(self) -> Case:
        return self.request.case

    def run(self) -> Attribution:
        traces, divergence = self._find_divergence(self.printer.vocabulary)
        answer = self._answer(traces)
        if self.unprinted is not None:
            return replace(answer, unanswered=self.unprinted)
        if not isinstance(self.printer, IrPrinter):
            return _by_names(answer, traces)
        if divergence.persistent is None and self._compiles_on(self.toolchains[1]):
            self.notes.append(
                "no difference of operations or types persists, so attributes and "
                "sizes were compared as well"
            )
            detailed = replace(self.printer.vocabulary, detailed=True, bookkeeping=None)
            traces, divergence = self._find_divergence(detailed)
            answer = self._answer(traces)
        answer = replace(
            answer,
            function={"good": divergence.good, "bad": divergence.bad},
            shared_memory_bytes={
                "good": _shared_bytes(traces.good, divergence.good),
                "bad": _reported_bytes(self.failure)
                or _shared_bytes(traces.bad, divergence.bad),
            },
        )
        if divergence.persistent is None:
            status = ComparisonResult.SAME
            if self.failure:
                status = ComparisonResult.FAILING
            files = self._files(answer.failing) if answer.failing else ()
            return replace(answer, status=status, files=files)
        persistent = self._diverging_pass(divergence.persistent)
        if self.request.excerpts:
            excerpt = self._excerpt(divergence.persistent, traces)
            persistent = replace(persistent, excerpt=excerpt)
        files, other = persistent.files, None
        if divergence.other:
            other = self._diverging_pass(divergence.other)
            files += other.files
        return replace(
            answer,
            status=ComparisonResult.DIVERGES,
            persistent=persistent,
            other=other,
            files=tuple(dict.fromkeys(files)),
        )

    def _answer(self, traces: TracePair) -> Attribution:
        """Return what every answer says."""
        return Attribution(
            self.case.name,
            self.probes[0].revision,
            self.probes[1].revision,
            ComparisonResult.INCONCLUSIVE,
            failure=self.failure,
            failing=_failing_pass(traces.bad, self.failure),
            one_sided=traces.one_sided_passes(),
        )

    @property
    def failure(self) -> Failure | None:
        outcome = self.probes[1].outcome
        if isinstance(outcome, Failed):
            return outcome.failure
        return None

    def _find_divergence(self, words: Vocabulary) -> tuple[TracePair, Divergence]:
        good, bad = self._both(partial(self._trace, words=words))
        text, failure = "", self.failure
        if failure:
            text = " ".join([failure.headline, *map(str, failure.details.values())])
        traces = TracePair(
            good,
            bad,
            words.passes,
            text,
            self.request.kernel,
            words is self.printer.vocabulary,
        )
        return traces, find_divergence(traces)

    def _both(self, work: Callable[[Toolchain], T]) -> tuple[T, T]:
        """Run the same work for both compilers, in parallel if there are two
        workers.
        """
        with self.engine.threads(2) as pool:
            good, bad = (pool.submit(work, toolchain) for toolchain in self.toolchains)
            return good.result(), bad.result()

    def _compile(
        self,
        toolchain: Toolchain,
        alter: Callable[[Invocation], Invocation],
        on_data: Callable[[bytes], None],
    ) -> Execution:
        def count(data: bytes) -> None:
            with self._lock:
                self.printed += len(data)
            on_data(data)

        with self._lock:
            self.compiles += 1
        self.task.describe(
            f"attribute  {self.case.name} on {toolchain.revision.name}, "
            f"{self.compiles} compiles"
        )
        execution = self.engine.observe(self.case, toolchain, alter, on_stderr=count)
        assert isinstance(execution, Execution)  # both compilers can be tested
        return execution

    def _trace(self, toolchain: Toolchain, words: Vocabulary) -> Trace:
        """Return what a compile's passes changed. Compile only if it is not known."""
        task = self.engine.planner.plan(self.case, toolchain)
        assert isinstance(task, Task)  # both compilers can be tested
        printing = self.printer.printing_passes(task.invocation)
        key = key_of_ir(task, printing, words)
        kept = KeptIr(self.engine.registry.home)
        printed = kept.find(key)
        # a failure that comes and goes may have ended the known compile in another way
        if printed is None or printed.passed != self._compiles_on(toolchain):
            printed = self._print_ir(toolchain, words)
            kept.add(key, printed)
        trace = Trace()
        for dump in printed.dumps:
            trace.add_dump(dump)
        trace.was_stopped = printed.ending not in (Ending.EXITED, Ending.NO_OUTPUT)
        return trace

    def _print_ir(self, toolchain: Toolchain, words: Vocabulary) -> PrintedIr:
        collector = IrCollector()
        names_only = not isinstance(self.printer, IrPrinter)
        reader = DumpReader(words, collector.add, names_only=names_only)
        execution = self._compile(toolchain, self.printer.printing_passes, reader.feed)
        if execution.ending in (
            Ending.TIMED_OUT,
            Ending.OVER_MEMORY,
            Ending.OVER_OUTPUT,
        ):
            self.notes.append(
                f"{toolchain.revision.name}: the compile that prints the IR reached "
                f"its limit ({execution.ending.value}) after {execution.seconds:.0f} "
                "s; later passes are not compared"
            )
        elif self._compiles_on(toolchain) and not execution.ok:
            name, line = toolchain.revision.name, execution.stderr.last_line
            why = f"{name} does not compile when it prints its IR: {line}"
            self.unprinted = NoAnswer(Cause.NOT_FOUND, why)
        return PrintedIr(collector.dumps, execution.ending, execution.ok)

    def _compiles_on(self, toolchain: Toolchain) -> bool:
        probe = self.probes[self.toolchains.index(toolchain)]
        failure = probe.outcome.failure
        return failure is None or failure.stage is not Stage.COMPILE

    def _diverging_pass(self, aligned: AlignedPass) -> DivergingPass:
        good, bad = aligned.states.fingerprints
        ran = aligned.changed
        counts = good.count_differences(bad).items()
        return DivergingPass(
            ran.good.after if ran.good else None,
            ran.bad.after if ran.bad else None,
            aligned.function[1] if aligned.function else None,
            tuple(Difference(name, *map(str, both)) for name, both in counts),
            tuple(Difference(*choice) for choice in good.choice_differences(bad)),
            files=self._files(aligned.after),
        )

    def _excerpt(self, aligned: AlignedPass, traces: TracePair) -> Excerpt | None:
        """Compile with both again, print only the diverging pass, and keep the IR after
        it.
        """
        functions = aligned.function or (None, None)
        states = (aligned.states.good, aligned.states.bad)
        runs = zip(
            self.toolchains, (traces.good, traces.bad), functions, states, strict=True
        )
        texts: dict[str, DumpText] = {}
        for toolchain, trace, function, after in runs:
            state = _printed_state(trace, function, after)
            if state:
                text = DumpText(state.after, state.turn, function)
                texts[toolchain.identity] = text

        def read(toolchain: Toolchain) -> tuple[str, ...]:
            text = texts.get(toolchain.identity)
            if text is None or text.after.argument is None:
                return ()
            argument = text.after.argument
            self._compile(
                toolchain,
                lambda plain: self.printer.printing_passes(
                    plain, argument, generic=False
                ),
                text.feed,
            )
            return tuple(text.text)

        good, bad = self._both(read)
        if not good and not bad:
            return None
        return Excerpt(good, bad, any(text.cut for text in texts.values()))

    def _files(self, name: PassName) -> tuple[str, ...]:
        return source_files(
            name,
            self.request.repository,
            self.toolchains[1].revision.commit,
            self.printer.vocabulary.sources,
        )


def _by_names(answer: Attribution, traces: TracePair) -> Attribution:
    """Name the pass that fails, or the first that changes the program on one compiler
    only.
    """
    note = "the compiler prints no IR: only names of passes were compared"
    answer = replace(answer, notes=(note,))
    if answer.failing:
        return replace(answer, status=ComparisonResult.FAILING)
    if not answer.one_sided:
        why = "the same passes change the program on both, and no IR is printed"
        return replace(answer, unanswered=NoAnswer(Cause.NOT_FOUND, why))
    first = answer.one_sided[0]
    diverging = DivergingPass(first, None, None)
    if first in traces.bad.passes.values():
        diverging = DivergingPass(None, first, None)
    return replace(answer, status=ComparisonResult.DIVERGES, persistent=diverging)


def _failing_pass(trace: Trace, failure: Failure | None) -> PassName | None:
    """Return the innermost pass that failed, from the dumps or as a crash names it."""
    if trace.failed is not None:
        return trace.failed.after
    if failure and failure.failing_pass:
        return PassName(failure.failing_pass)
    return None


def _printed_state(
    trace: Trace, function: str | None, state: FunctionState | None
) -> FunctionState | None:
    """Return the state whose dump printed a function's IR at that time."""
    if state is None or function is None:
        return state
    known = [
        other
        for other in trace.functions.get(function, ())
        if other.index <= state.index and not other.failed
    ]
    return known[-1] if known else state


def _reported_bytes(failure: Failure | None) -> int | None:
    """Return the shared memory that the compiler itself says is too much."""
    if failure and failure.failure_class == "shared-memory-overflow":
        used = failure.details.get("bytes_used")
        if isinstance(used, int) and used > 0:
            return used
    return None


def _shared_bytes(trace: Trace, function: str | None) -> int | None:
    """Return the shared memory of a function at the end, before its buffers become
    pointers, if it is known.
    """
    states = trace.functions.get(function or "")
    if not states:
        return None
    sizes = [state.fingerprint.shared_bytes for state in states]
    last = next(filter(None, reversed(sizes)), 0)
    return last if last < _UNBOUNDED else None
