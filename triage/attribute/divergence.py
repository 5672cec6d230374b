"""Find the pass after which the IR of two compilers diverges over one case."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

from triage.attribute.align import Divergence, Pair, Trace, Traces, find_divergence
from triage.attribute.result import (
    Attribution,
    ComparisonResult,
    Difference,
    DivergingPass,
)
from triage.compilers.invocation import IrPrinter
from triage.execution.compare import same_signature
from triage.execution.engine import Engine
from triage.execution.plan import plan_task
from triage.execution.task import ProbeJob
from triage.mlir.fingerprint import DumpReader, Fingerprint, Vocabulary
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.execution import Ending, PassName, Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_LIMITS = (Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT)


def attribute(
    engine: Engine,
    case: Case,
    good_ref: ToolchainRef,
    bad_ref: ToolchainRef,
    patience: float = math.inf,
) -> Attribution:
    """Find where two compilers diverge over a case.

    patience: seconds for each compile that prints IR, if less than the case's own
    limit.

    Raises:
        BadInput: The family's IR cannot be printed.
        EnvironmentFailure: A toolchain cannot be obtained.
    """
    refs = (good_ref, bad_ref)
    family = engine.compilers[case.compiler]
    if family.passes is None:
        raise BadInput(
            f"{family.title or family.name} does not print its IR after each pass, so "
            "none can be named; `triage bisect` finds the release or commit, and "
            "`triage suspects` ranks the commits in between"
        )
    jobs = [ProbeJob(case, ref) for ref in refs]
    good, bad = engine.probe_in_order(jobs, "attribute")
    failure = bad.outcome.failure
    answer = Attribution(
        case.name,
        good.revision,
        bad.revision,
        ComparisonResult.INCONCLUSIVE,
        _why_not_comparable(good, bad),
        failure,
    )
    if answer.unanswered:
        return answer
    toolchains = (engine.registry.obtain(good_ref), engine.registry.obtain(bad_ref))
    timeout = min(case.limits.timeout, patience)
    timed = replace(case, limits=replace(case.limits, timeout=timeout))
    comparison = _Comparison(engine, timed, family.passes, toolchains, failure)
    return comparison.run(answer)


def _why_not_comparable(good: Probe, bad: Probe) -> NoAnswer | None:
    for probe in (good, bad):
        if isinstance(probe.outcome, NoAnswer):
            why = f"{probe.revision.name} cannot be tested: {probe.outcome.reason}"
            return NoAnswer(probe.outcome.cause, why)
    if isinstance(good.outcome, Failed):
        name = good.revision.name
        failure = good.outcome.failure
        if not isinstance(bad.outcome, Failed):
            why = f"{name} fails and {bad.revision.name} does not"
            return NoAnswer(Cause.NOT_FOUND, f"{why}; exchange --good and --bad")
        is_same = same_signature(failure)(bad.outcome.failure)
        if is_same or failure.stage is Stage.COMPILE:
            why = f"{name} fails too: {failure.headline}"
            return NoAnswer(Cause.NEEDLESS, why)
    return None


@dataclass
class _Comparison:
    engine: Engine
    case: Case
    printer: IrPrinter
    toolchains: tuple[Toolchain, Toolchain]
    failure: Failure | None
    """The failure of the bad compiler."""
    notes: list[str] = field(default_factory=list)
    unprinted: NoAnswer | None = None
    """Why a compiler prints no IR."""

    def run(self, answer: Attribution) -> Attribution:
        """Compare operations and types, then if nothing else differs all attributes."""
        vocabulary = self.engine.compilers[self.case.compiler].vocabulary
        bad, divergence = self._find_divergence(vocabulary)
        answer = replace(answer, failing=_failing_pass(bad, self.failure))
        if self.unprinted is not None:
            return replace(answer, unanswered=self.unprinted, notes=tuple(self.notes))
        if divergence.persistent is None and self._compiles_on(self.toolchains[1]):
            self.notes.append(
                "no difference of operations or types persists, so attributes and "
                "sizes were compared as well"
            )
            detailed = replace(vocabulary, detailed=True, bookkeeping=None)
            _, divergence = self._find_divergence(detailed)
        passes = [
            self._diverging_pass(pair)
            for pair in (divergence.persistent, divergence.other)
            if pair
        ]
        status = ComparisonResult.DIVERGES
        if not passes:
            status = ComparisonResult.SAME
            if self.failure:
                status = ComparisonResult.FAILING
        persistent, other, *_ = (*passes, None, None)
        return replace(
            answer,
            status=status,
            function={"good": divergence.good, "bad": divergence.bad},
            persistent=persistent,
            other=other,
            notes=tuple(self.notes),
        )

    def _find_divergence(self, vocabulary: Vocabulary) -> tuple[Trace, Divergence]:
        """Return what the bad compiler did, and where both diverge."""
        trace = partial(self._trace, vocabulary=vocabulary)
        with self.engine.registry.workspace.threads(2) as pool:
            good, bad = pool.map(trace, self.toolchains)
        traces = Traces(good, bad, vocabulary.passes, decides=not vocabulary.detailed)
        return bad, find_divergence(traces)

    def _trace(self, toolchain: Toolchain, vocabulary: Vocabulary) -> Trace:
        """Return what a compile's passes change."""
        trace = Trace()
        reader = DumpReader(vocabulary, trace.add_dump)
        task = plan_task(self.engine, self.case, toolchain)
        printing = task.invocation.with_printing(self.printer.all_passes)
        task = replace(task, invocation=printing)
        execution = self.engine.compile(task, self.engine.stop, on_stderr=reader.feed)
        name = toolchain.revision.name
        if execution.ending in _LIMITS:
            self.notes.append(
                f"{name}: the compile that prints the IR reached its limit "
                f"({execution.ending.value}); later passes are not compared"
            )
        elif self._compiles_on(toolchain):
            why = ""
            if not execution.ok:
                ending = execution.ending_text(self.case.limits)
                why = f"{name} does not compile when it prints its IR: {ending}"
            elif not trace.functions:
                why = f"{name} prints no IR after its passes"
            if why:
                self.unprinted = NoAnswer(Cause.NOT_FOUND, why)
        trace.was_stopped = execution.ending not in (Ending.EXITED, Ending.NO_OUTPUT)
        return trace

    def _compiles_on(self, toolchain: Toolchain) -> bool:
        is_good = toolchain is self.toolchains[0]
        failure = self.failure
        return is_good or failure is None or failure.stage is not Stage.COMPILE

    def _diverging_pass(self, pair: Pair) -> DivergingPass:
        good, bad = (
            state.fingerprint if state else Fingerprint()
            for state in (pair.good, pair.bad)
        )
        counts = good.count_differences(bad).items()
        return DivergingPass(
            *pair.passes,
            pair.function[1] if pair.function else None,
            tuple(Difference(name, *map(str, both)) for name, both in counts),
            tuple(Difference(*choice) for choice in good.choice_differences(bad)),
        )


def _failing_pass(trace: Trace, failure: Failure | None) -> PassName | None:
    """Return the innermost pass that failed, from the dumps or as a crash names it."""
    if trace.failed is not None:
        return trace.failed.after
    if failure and failure.failing_pass:
        return PassName(failure.failing_pass)
    return None
