"""Reduces a case that fails to a small program that fails in the same way.

`reduce_case` compiles the original on both toolchains, opens its program in the first
form that fails, runs the passes, and probes the result on every version.

Each answer about a candidate is cached, and the search is deterministic. So an
interrupted reduction continues where it was when it is started again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.invocation import flag_name
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.judge import result_of
from triage.execution.mlir_tools import Reader
from triage.execution.persistent_workers import PersistentWorkers
from triage.execution.task import ProbeJob
from triage.model.case import Case, InputKind, Reference
from triage.model.errors import BadInput
from triage.model.execution import Limits, Stage
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.progress import ProgressTask
from triage.model.revision import Toolchain
from triage.reduce.baseline import (
    Baseline,
    NotReducibleError,
    ReductionRequest,
    measure_baseline,
)
from triage.reduce.first_wrong import FirstWrong
from triage.reduce.frontends.mlir import mlir_form
from triage.reduce.frontends.mlir_program import Checker
from triage.reduce.frontends.python import python_form
from triage.reduce.frontends.text import text_form
from triage.reduce.interestingness import CompileTest, line_of
from triage.reduce.problem import Form, Pass, ReductionProblem, shrink
from triage.reduce.program import ReducedCase, UnreadableError, settings_of
from triage.reduce.replay import ReplayState, replay_states
from triage.reduce.reproducer import in_order, span_around
from triage.reduce.result import Reduction, SizeChange, WrongValue
from triage.reduce.runs import ArgumentValues, RunTest
from triage.reduce.settings import setting_changes
from triage.toolchains.home import KeptKind, disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

# a candidate's time limit, as a multiple of the original's compile time
_PATIENCE = 4.0
_SHORTEST = 10.0  # seconds, the shortest time limit of a candidate
_LONGEST_HANGING = 30.0  # seconds for a candidate when the original timed out
_NO_REFERENCE = (
    "nothing computes what a smaller program must return: name a toolchain that "
    "computes the right result with --good, or give the recipe's `run` a `reference`"
)
_STATES = {
    ReplayState.REPRODUCES: "also fails",
    ReplayState.FIXED: "passes",
    ReplayState.CHANGED: "fails in another way",
}
_NOT_THE_SAME = (
    "the reduced program does not fail in the same way when it is probed in full"
)


def reduce_case(engine: Engine, request: ReductionRequest) -> Reduction:
    """Reduce a case, or return why it is not reduced."""
    started = time.monotonic()
    try:
        with ExitStack() as stack:
            reduction = _begin(engine, request, stack).reduce()
    except NotReducibleError as error:
        return Reduction(error.case, error.answer, error.probes)
    return replace(reduction, seconds=round(time.monotonic() - started, 2))


def find_first_wrong(engine: Engine, request: ReductionRequest) -> WrongValue | None:
    """Return the first value of a program that the bad toolchain computes wrong; None
    if it is not found. Nothing is reduced.
    """
    with ExitStack() as stack:
        try:
            work = _begin(engine, request, stack)
            _, start = work.open_first()
        except NotReducibleError:
            return None
        if work.wrong:
            work.wrong.wrong_operation(start)
            return work.wrong.value
    return None


def _begin(engine: Engine, request: ReductionRequest, stack: ExitStack) -> _Work:
    """Return a reduction that can go on. Raises NotReducibleError."""
    task = engine.progress.task(f"reduce  {request.case.name}: the original")
    stack.callback(task.finish)
    bad, good = engine.registry.obtain(request.bad), None
    if request.good:
        good = engine.registry.obtain(request.good)
    start = measure_baseline(engine, request, bad, good)
    case, references = request.case, list[Reference]()
    if start.failure.stage is Stage.COMPILE or start.failure.is_number:
        case = replace(case, run=None)
    else:
        references = references_for(engine, request, good)
        if not references:
            answer = NoAnswer(Cause.NOT_FOUND, _NO_REFERENCE)
            raise NotReducibleError(answer, case, start.probes)
    read = engine.planner.input_of(case, bad)
    assert isinstance(read, Prepared)  # it was compiled
    identities = bad.identity, good and good.identity
    key = repr((case.name, read.digest, settings_of(case), identities))
    digest = sha256(key.encode()).hexdigest()
    folder = engine.registry.home.kept(KeptKind.REDUCTIONS) / digest[:16]
    candidates = stack.enter_context(engine.maker.folder())
    forms = forms_for(engine, case, bad, read.path, stack)
    request = replace(request, case=case)
    if not case.run:
        test = CompileTest(engine, candidates, bad, good, start)
        return _Work(engine, request, good, test, folder, forms, read.path, task)
    values = ArgumentValues(folder / "values")
    workers = PersistentWorkers(candidates, engine.stop)
    stack.callback(workers.close)
    # Without the good toolchain: the reference computes the results.
    run_test = RunTest(
        engine,
        candidates,
        bad,
        None,
        start,
        values=values,
        references=references,
        results=folder / "results",
        workers=workers,
    )
    wrong = None
    if start.failure.stage is Stage.COMPARE:
        wrong = FirstWrong(run_test, read.path)
    last = (values.simplify_values,)
    return _Work(
        engine, request, good, run_test, folder, forms, read.path, task, wrong, last
    )


def forms_for(
    engine: Engine, case: Case, toolchain: Toolchain, source: Path, stack: ExitStack
) -> list[Form]:
    """Return the forms of a case whose compiler reads `source`.

    One that understands the program comes first, then plain text: comments and custom
    syntax may be part of the failure.
    """
    forms: list[Form] = []
    suffix = source.suffix.lstrip(".")
    if suffix == "py":
        forms.append(python_form(case))
    elif suffix == InputKind.ONNX:
        forms.append(_onnx_form())
    elif reader := _reader_of(engine, toolchain, stack):
        checker = Checker(reader)
        for ref in engine.registry.installed_releases(case.compiler)[-1:]:
            newest = engine.registry.obtain(ref)
            if newest.identity != toolchain.identity:
                checker.newest = _reader_of(engine, newest, stack)
        forms.append(mlir_form(checker))
    is_text = suffix not in (InputKind.BYTECODE, InputKind.ONNX)
    if is_text and case.run is None:
        kind, why = InputKind.OTHER, ""
        if suffix == InputKind.MLIR:
            kind = InputKind.MLIR
        if not forms:
            why = "no tool of this toolchain reads the input: "
        forms.append(text_form(kind, suffix or "txt", why))
    return forms


def _onnx_form() -> Form:
    try:
        from triage.reduce.frontends.onnx import ONNX
    except ImportError as error:
        advice = "pip install 'iree-triage[onnx]'"
        raise BadInput(f"reducing an ONNX model needs an extra: {advice}") from error
    return ONNX


def _reader_of(engine: Engine, toolchain: Toolchain, stack: ExitStack) -> Reader | None:
    """Return the MLIR tools of a toolchain; None if it has none."""
    tools = engine.compilers[toolchain.family].mlir_tools(toolchain)
    if tools is None:
        return None
    reader = Reader(tools, engine.stop)
    stack.callback(reader.close)
    return reader


def references_for(
    engine: Engine, request: ReductionRequest, good: Toolchain | None
) -> list[Reference]:
    """Return two references: one that computes the expected results of candidates, and
    one that confirms them. Return none if nothing computes them.

    The first is the good toolchain, else the case's own reference. The second is the
    same without optimisation.
    """
    case = request.case
    first = case.run.reference if case.run else None
    if good:
        first = Reference(good.revision.name)
    programs = engine.compilers[case.compiler].run
    if first is None or programs is None:
        return []
    plain = programs.unoptimised
    replaced = {flag_name(text) for text in plain}
    kept = [flag.text for flag in case.flags if flag_name(flag.text) not in replaced]
    return [first, Reference(first.toolchain, (*kept, *plain))]


@dataclass(frozen=True)
class _Work:
    """A reduction in progress."""

    engine: Engine
    request: ReductionRequest
    good: Toolchain | None
    test: CompileTest
    folder: Path
    forms: list[Form]
    source: Path
    """The file that is reduced."""
    task: ProgressTask
    wrong: FirstWrong | None = None
    """Of a wrong result."""
    last: tuple[Pass, ...] = ()
    """Passes after those of the form."""

    @property
    def baseline(self) -> Baseline:
        return self.test.baseline

    def reduce(self) -> Reduction:
        """Run all passes, and probe the result on every version."""
        form, start = self.open_first()
        jobs = self.engine.local_jobs
        if self.baseline.is_portable:
            jobs = self.engine.jobs
        problem = ReductionProblem(start, self.test, jobs, self._describe)
        if form.approach:
            problem.run(form.approach(line_of(self.baseline.failure)))
        if self.wrong:
            problem.run(self.wrong.find_first_wrong_value)
        shrink(problem, form.passes, (*form.final_passes, *self.last))
        reduction = self._probe_on_versions(start, problem.current)
        value = self.wrong.value if self.wrong else None
        notes = [*self._notes_on_versions(reduction)]
        if value:
            notes.append(value.sentence)
        notes += [*self.baseline.notes, *form.notes, *self.test.notes]
        return replace(
            reduction,
            notes=tuple(notes),
            invalid=problem.invalid,
            first_wrong=value,
        )

    def open_first(self) -> tuple[Form, ReducedCase]:
        """Return the first form of the program that fails, and the program in it.
        Raises NotReducibleError.
        """
        case = _in_less_time(self.request.case, self.baseline)
        why = prefix = ""
        for form in self.forms:
            try:
                start = self._open(form, case)
            except UnreadableError as error:
                why = str(error)
                prefix = f"{why}: "
                continue
            notes = [f"{prefix}{note}" for note in form.notes]
            return replace(form, notes=notes), start
        answer = NoAnswer(Cause.INPUT, why)
        if self.test.problem:
            answer = NoAnswer(Cause.ENVIRONMENT, self.test.problem)
        raise NotReducibleError(answer, case, self.baseline.probes)

    def _open(self, form: Form, case: Case) -> ReducedCase:
        """Return the first program of a form that fails. Raises UnreadableError."""
        cases, phase = [case], self.baseline.failure.phase
        if case.phase is None and phase in self.test.bad.capabilities.phases:
            # first a compile that ends after the phase that fails
            cases.insert(0, replace(case, phase=phase))
        why = "it cannot be read"
        # one at a time: with its constants a program may take gigabytes
        for program in form.open(self.source):
            if program.canonical is None:
                why = f"{form.name} is not valid"
                continue
            why = f"{form.name} does not fail in the same way"
            for each in cases:
                start = self.test.prepare(ReducedCase(program, each))
                ready = start and self.test.ready(start)
                if start is None or ready is None:
                    why = (
                        "the reference does not run it, its results are not defined, "
                        "or its arguments cannot be given others"
                    )
                elif self.test.is_interesting(ready, self.engine.stop):
                    self.test.begin_with(start)
                    return start
        raise UnreadableError(why)

    def _describe(self, problem: ReductionProblem) -> None:
        program = problem.current.program
        self.task.describe(
            f"reduce  {self.request.case.name}: {problem.activity}, {program.size} "
            f"{program.unit}s left after {self.test.calls} compiles"
        )

    def _probe_on_versions(
        self, original: ReducedCase, smallest: ReducedCase
    ) -> Reduction:
        """Probe the program on every version, in each way in which it can be written,
        and return the reduction.

        Of these, the one is kept that the fewest versions cannot test, so that the
        recipe holds on every version that is reported.
        """
        asked = self.request.case
        smallest = self.test.complete(smallest) or smallest
        run = smallest.case.run
        if run and asked.run:
            run = replace(run, limits=asked.run.limits)
        smallest = smallest.with_case(
            limits=asked.limits, phase=asked.phase, run=run, expect=()
        )
        best: Reduction | None = None
        answer = NoAnswer(Cause.NOT_FOUND, _NOT_THE_SAME)
        for content in smallest.program.ways_to_write():
            probed = self._probe(original, smallest, content)
            if isinstance(probed, NoAnswer):
                answer = probed
            elif best is None or _untested(probed) < _untested(best):
                best = probed
            if best and not _untested(best):
                break
        if best is None:
            raise NotReducibleError(answer, asked, self.baseline.probes)
        return best

    def _probe(
        self, original: ReducedCase, smallest: ReducedCase, content: bytes
    ) -> Reduction | NoAnswer:
        """Probe the smallest program, written as `content`, on every version. Return
        the reduction, or why it does not fail as the original on the bad version.
        """
        request, start, program = self.request, self.baseline, smallest.program
        # A path for each content, because digests are remembered by path.
        name = f"reduced-{sha256(content).hexdigest()[:12]}"
        path = self.folder / name / f"input.{program.suffix}"
        with disk_errors("write the reduced program"):
            write_whole(path, content)
        case = replace(
            smallest.case,
            name=f"{smallest.case.name} (reduced)",
            input=smallest.case.input.rewritten(path, program.kind),
        )
        refs = self._versions(case)
        jobs = [ProbeJob(case, ref) for ref in refs.values()]
        probes = {
            probe.revision.name: probe
            for probe in self.engine.probe_all(jobs, "probe the reduced program")
        }
        outcome = probes[request.bad.revision.name].outcome
        if isinstance(outcome, NoAnswer):
            return outcome
        good = self.good and probes[self.good.revision.name].outcome
        if (
            not isinstance(outcome, Failed)
            or not start.match(outcome.failure)
            or (outcome.flaky and start.repeats == 1)
            or (good and not start.lacks_failure(good))
        ):
            return NoAnswer(Cause.NOT_FOUND, _NOT_THE_SAME)
        was = original.program
        lines = [text.rstrip(b"\n").count(b"\n") + 1 for text in (was.content, content)]
        good_revision = None
        if self.good and not start.good_may_fail:
            good_revision = self.good.revision
        return Reduction(
            small=smallest.case,
            probes=tuple(probes[name] for name in refs),
            failure=outcome.failure,
            bad=self.test.bad.revision,
            good=good_revision,
            program=content.decode("utf-8", "replace"),
            sizes=SizeChange(was.size, program.size),
            unit=program.unit,
            lines=SizeChange(*lines),
            bytes=SizeChange(len(was.content), len(content)),
            oracle_calls=self.test.calls,
            cached=self.test.cached,
            compile_seconds=round(self.test.seconds, 2),
            changes=tuple(setting_changes(request.case, smallest.case)),
        )

    def _notes_on_versions(self, reduction: Reduction) -> Iterator[str]:
        """Yield on which versions the original ends in another way than the reduced
        program.

        The original is compiled on the versions at the ends of the reduced program's
        span, which a reader takes for those of the original. Of others, what is known
        is compared.
        """
        case, failure = self.request.case, reduction.failure
        refs, probes = self._versions(case), in_order(reduction.probes)
        assert failure is not None
        [bad] = [one for one in probes if one.revision == self.test.bad.revision]
        span = span_around(probes, bad)
        ends = (span.before, span.first_bad, span.last_bad, span.after)
        jobs = [ProbeJob(case, refs[end.revision.name]) for end in ends if end]
        list(self.engine.probe_all(jobs, "probe the original"))
        recalled = [self.engine.recall(ProbeJob(case, refs[name])) for name in refs]
        original = self.baseline.failure.signature
        was = replay_states(map(result_of, filter(None, recalled)), original)
        now = replay_states(map(result_of, probes), failure.signature)
        for state, verb in _STATES.items():
            names = [
                name
                for name in now
                if was.get(name) == state
                and now[name] not in (state, ReplayState.UNTESTABLE)
            ]
            if names:
                yield f"the original {verb} on {', '.join(names)}"

    def _versions(self, case: Case) -> dict[str, ToolchainRef]:
        """Return the toolchains that a result is probed on, by name."""
        installed = self.engine.registry.installed_releases(case.compiler)
        named = [ref for ref in (self.request.bad, self.request.good) if ref]
        return {ref.revision.name: ref for ref in (*installed, *named)}


def _untested(reduction: Reduction) -> int:
    """Return how many versions cannot test the reduced program."""
    return sum(isinstance(probe.outcome, NoAnswer) for probe in reduction.probes)


def _in_less_time(case: Case, start: Baseline) -> Case:
    """Return the case with shorter limits, so that candidates that hang cost little."""

    def shorter(limits: Limits, longest: float) -> Limits:
        timeout = min(limits.timeout, longest)
        return replace(limits, timeout=timeout)

    longest = max(_SHORTEST, _PATIENCE * start.seconds)
    if start.seconds >= case.limits.timeout:  # the original hangs
        longest = _LONGEST_HANGING
    run = case.run
    if run:
        run = replace(run, limits=shorter(run.limits, _SHORTEST))
    return replace(case, limits=shorter(case.limits, longest), run=run)
