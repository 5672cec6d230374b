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
    follow,
)
from triage.attribute.excerpt import DumpText, source_files
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
from triage.execution.task import ProbeJob
from triage.git_history.repository import GitRefused, Repository
from triage.mlir.fingerprint import Fingerprint, Vocabulary
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
    """What to compare on which compilers, and how closely."""

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
    case, ends = request.case, (request.good, request.bad)
    printer = _printer_of(engine, case)
    jobs = [ProbeJob(case, ref) for ref in ends]
    probes = {
        probe.revision.name: probe for probe in engine.probe_all(jobs, "attribute")
    }
    pair = (probes[ends[0].revision.name], probes[ends[1].revision.name])
    started = time.monotonic()
    names = (case.name, pair[0].revision, pair[1].revision)
    problem = _not_comparable(*pair)
    if problem is not None:
        return Attribution(*names, ComparisonResult.INCONCLUSIVE, problem)
    toolchains = (engine.registry.obtain(ends[0]), engine.registry.obtain(ends[1]))
    for toolchain in toolchains:
        if not printer.is_supported_by(toolchain):
            why = (
                f"{toolchain.revision.name} has no options that print the IR after "
                "each pass"
            )
            return Attribution(
                *names,
                ComparisonResult.INCONCLUSIVE,
                NoAnswer(Cause.NOT_FOUND, why),
            )
    timeout = min(case.limits.timeout, request.patience)
    timed = replace(case, limits=replace(case.limits, timeout=timeout))
    task = engine.progress.task(f"attribute  {case.name}")
    comparison = _Comparison(
        engine, task, replace(request, case=timed), printer, pair, toolchains
    )
    try:
        found = comparison.run()
    except BaseException as error:
        if not isinstance(error, TriageError) or isinstance(error, Interrupted):
            engine.stop.set()  # also end the run of the other side
        raise
    finally:
        task.finish()
    return replace(found, seconds=round(time.monotonic() - started, 2))


def _printer_of(engine: Engine, case: Case) -> PassTrace:
    family = engine.compilers[case.compiler]
    if family.passes is None:
        raise BadInput(
            f"{family.title or family.name} does not print its passes, so none can be "
            "named; `triage bisect` finds the release or commit, and `triage suspects` "
            "ranks the commits in between"
        )
    return family.passes


def _not_comparable(good: Probe, bad: Probe) -> NoAnswer | None:
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
    # guards the two counts: both compilers run at the same time
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def case(self) -> Case:
        return self.request.case

    def run(self) -> Attribution:
        traces, found = self._followed(self.printer.vocabulary)
        compiles = self.failure is None or self.failure.stage is not Stage.COMPILE
        if not isinstance(self.printer, IrPrinter):
            return self._by_names(traces)
        if found.persistent is None and compiles:
            self.notes.append(
                "no difference of operations or types persists, so attributes and "
                "sizes were compared as well"
            )
            traces, found = self._followed(
                replace(self.printer.vocabulary, detailed=True, bookkeeping=None)
            )
        persistent, other = (
            self._diverging(aligned) if aligned else None
            for aligned in (found.persistent, found.other)
        )
        if persistent and found.persistent and self.request.excerpts:
            persistent = replace(
                persistent, excerpt=self._excerpt(found.persistent, traces)
            )
        failing = _failing_pass(traces.bad, self.failure)
        files: tuple[str, ...] = ()
        if persistent:
            status = ComparisonResult.DIVERGES
            found_files = [*persistent.files, *(other.files if other else ())]
            files = tuple(dict.fromkeys(found_files))
        elif self.failure:
            status = ComparisonResult.FAILING
            files = self._files(failing) if failing else ()
        else:
            status = ComparisonResult.SAME
        shared = _reported_bytes(self.failure) or _shared_bytes(traces.bad, found.bad)
        answer = Attribution(
            self.case.name,
            self.probes[0].revision,
            self.probes[1].revision,
            status,
            failure=self.failure,
            failing=failing,
            function={"good": found.good, "bad": found.bad},
            persistent=persistent,
            other=other,
            one_sided=traces.one_sided_passes(),
            shared_memory_bytes={
                "good": _shared_bytes(traces.good, found.good),
                "bad": shared,
            },
            files=files,
            notes=tuple(self.notes),
            compiles=self.compiles,
            printed_bytes=self.printed,
        )
        if answer.is_sure:
            return answer
        return replace(answer, commits_between=self._commits_between())

    def _commits_between(self) -> int | None:
        good, bad = (probe.revision.commit for probe in self.probes)
        repository = self.request.repository
        if repository is None or good is None or bad is None:
            return None
        try:
            count = repository.text("rev-list", "--count", f"{good}..{bad}")
        except GitRefused:  # a commit that the clone lacks
            return None
        return int(count)

    def _by_names(self, traces: TracePair) -> Attribution:
        """Name the pass that fails, or the first that changes the program on one
        compiler only.
        """
        failing = _failing_pass(traces.bad, self.failure)
        one_sided = traces.one_sided_passes()
        found = Attribution(
            self.case.name,
            self.probes[0].revision,
            self.probes[1].revision,
            ComparisonResult.INCONCLUSIVE,
            failure=self.failure,
            failing=failing,
            one_sided=one_sided,
            notes=("the compiler prints no IR: only names of passes were compared",),
            compiles=self.compiles,
            printed_bytes=self.printed,
        )
        if failing:
            return replace(found, status=ComparisonResult.FAILING)
        if not one_sided:
            why = "the same passes change the program on both, and no IR is printed"
            return replace(found, unanswered=NoAnswer(Cause.NOT_FOUND, why))
        first, is_bad = one_sided[0], one_sided[0] in traces.bad.passes.values()
        diverging = DivergingPass(
            None if is_bad else first, first if is_bad else None, None
        )
        return replace(found, status=ComparisonResult.DIVERGES, persistent=diverging)

    @property
    def failure(self) -> Failure | None:
        outcome = self.probes[1].outcome
        if isinstance(outcome, Failed):
            return outcome.failure
        return None

    def _followed(self, words: Vocabulary) -> tuple[TracePair, Divergence]:
        (good, good_run), (bad, bad_run) = self._both(partial(self._trace, words=words))
        early = tuple(
            trace.failed is not None or run.ending is not Ending.EXITED
            for trace, run in ((good, good_run), (bad, bad_run))
        )
        failure = self.failure  # may name a function
        if failure:
            text = " ".join([failure.headline, *map(str, failure.details.values())])
        else:
            text = ""
        traces = TracePair(
            good,
            bad,
            words.passes,
            (early[0], early[1]),
            text,
            self.request.kernel,
            words is self.printer.vocabulary,
        )
        return traces, follow(traces)

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

    def _trace(
        self, toolchain: Toolchain, words: Vocabulary
    ) -> tuple[Trace, Execution]:
        trace = Trace()
        reader = DumpReader(
            words, trace.take, names_only=not isinstance(self.printer, IrPrinter)
        )
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
        return trace, execution

    def _diverging(self, aligned: AlignedPass) -> DivergingPass:
        good_pass, bad_pass = (
            state.after if state else None for state in (aligned.good, aligned.bad)
        )
        good, bad = (
            state.fingerprint if state else Fingerprint()
            for state in aligned.states_after
        )
        choices = tuple(Difference(*choice) for choice in good.choice_differences(bad))
        found = DivergingPass(
            good_pass, bad_pass, aligned.functions[1], _operations(good, bad), choices
        )
        return replace(found, files=self._files(found.pass_name))

    def _excerpt(self, aligned: AlignedPass, traces: TracePair) -> Excerpt | None:
        """Compile with both again, print only the diverging pass, and keep the IR after
        it.
        """
        if aligned.functions[1]:
            names = aligned.functions
        else:
            names = (_only_changed(traces.bad, aligned),) * 2
        texts: dict[str, DumpText] = {}
        for toolchain, trace, name, after in zip(
            self.toolchains,
            (traces.good, traces.bad),
            names,
            aligned.states_after,
            strict=True,
        ):
            state = _printed_state(trace, name, after)
            if state:
                texts[toolchain.identity] = DumpText(state.after, state.turn, name)

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
        if good or bad:
            return Excerpt(good, bad, any(text.cut for text in texts.values()))
        return None

    def _files(self, name: PassName) -> tuple[str, ...]:
        return source_files(
            name,
            self.request.repository,
            self.toolchains[1].revision.commit,
            self.printer.vocabulary.sources,
        )


def _failing_pass(trace: Trace, failure: Failure | None) -> PassName | None:
    """Return the innermost pass that failed, from the dumps or as a crash names it."""
    if trace.failed is not None:
        return trace.failed.after
    if failure and failure.failing_pass:
        return PassName(failure.failing_pass)
    return None


def _only_changed(trace: Trace, aligned: AlignedPass) -> str | None:
    """Return the program's function that a pass changed, if it is the only one."""
    state = aligned.states_after[1]
    changed = [
        name
        for name, states in trace.functions.items()
        if name not in trace.device
        and any(state and other.index == state.index for other in states)
    ]
    if len(changed) == 1:
        return changed[0]
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
    if known:
        return known[-1]
    return state


def _reported_bytes(failure: Failure | None) -> int | None:
    """Return the shared memory that the compiler itself says is too much."""
    if failure and failure.failure_class == "shared-memory-overflow":
        used = failure.details.get("bytes_used")
    else:
        used = None
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
    last = next(
        (
            state.fingerprint.shared_bytes
            for state in reversed(states)
            if state.fingerprint.shared_bytes
        ),
        0,
    )
    if last < _UNBOUNDED:
        return last
    return None


def _operations(good: Fingerprint, bad: Fingerprint) -> tuple[Difference, ...]:
    here, there = good.operations, bad.operations
    names = (
        name
        for name in sorted({*here, *there})
        if here.get(name, 0) != there.get(name, 0)
    )
    return tuple(
        Difference(name, str(here.get(name, 0)), str(there.get(name, 0)))
        for name in names
    )
