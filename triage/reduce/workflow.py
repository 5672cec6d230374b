"""Reduces a case that fails to a small program that fails in the same way.

`reduce_case` compiles the original on both toolchains, opens its program with the first
frontend that can read it, runs the passes, and probes the result on every version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.invocation import flag_name
from triage.execution.engine import Engine
from triage.execution.files import Prepared, Scratch
from triage.execution.judge import result_of
from triage.execution.mlir_tools import Reader
from triage.execution.persistent_workers import PersistentWorkers
from triage.execution.task import ProbeJob
from triage.model.case import Case, InputKind, Reference
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Probe,
)
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline, ReductionRequest, measure_baseline
from triage.reduce.engine import Frontend, Pass, reduce, run_pass
from triage.reduce.first_wrong import FirstWrong
from triage.reduce.frontends.mlir import mlir_frontend
from triage.reduce.frontends.mlir_program import Checker
from triage.reduce.frontends.python import python_frontend
from triage.reduce.frontends.text import text_frontend
from triage.reduce.interestingness import InterestingnessTest, Oracle, line_of
from triage.reduce.program import (
    ReducedCase,
    Reducible,
    UnreadableError,
    settings_of,
)
from triage.reduce.replay import ReplayState, replay_states
from triage.reduce.reproducer import in_order, span_around
from triage.reduce.result import (
    Reduction,
    ReductionFolder,
    SizeChange,
    WrongValue,
    not_reduced,
    setting_changes,
)
from triage.reduce.runs import ArgumentValues, RunOracle
from triage.toolchains.home import disk_errors, write_whole
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


def frontends_for(
    engine: Engine, case: Case, toolchain: Toolchain, source: Path, stack: ExitStack
) -> list[Frontend]:
    """Return the frontends for a case whose compiler reads `source`.

    One that understands the program comes first, then plain text: comments and custom
    syntax may be part of the failure.
    """
    if case.input.kind is InputKind.ONNX:
        try:
            # slow to import, and rarely needed
            from triage.reduce.frontends.onnx import ONNX
        except ImportError as error:
            raise BadInput(
                "reducing an ONNX model needs the Python package onnx next to triage: "
                "pip install onnx"
            ) from error
        return [ONNX]
    frontends: list[Frontend] = []
    suffix = source.suffix.lstrip(".")
    if suffix == "py":
        frontends.append(python_frontend(case))
    elif reader := _reader_of(engine, toolchain, stack):
        checker = Checker(reader)
        for ref in engine.registry.installed_releases(case.compiler)[-1:]:
            newest = engine.registry.obtain(ref)
            if newest.identity != toolchain.identity:
                checker.newest = _reader_of(engine, newest, stack)
        frontends.append(mlir_frontend(checker))
    if suffix != InputKind.BYTECODE and case.run is None:
        kind = InputKind.MLIR if suffix == InputKind.MLIR else InputKind.OTHER
        why = "" if frontends else "no tool of this toolchain reads the input: "
        frontends.append(text_frontend(kind, suffix or "txt", why))
    return frontends


def _reader_of(engine: Engine, toolchain: Toolchain, stack: ExitStack) -> Reader | None:
    """Return the MLIR tools of a toolchain; None if it has none."""
    tools = engine.compilers[toolchain.family].mlir_tools(toolchain)
    if tools is None:
        return None
    reader = Reader(tools, engine.stop)
    stack.callback(reader.close)
    return reader


def reduce_case(engine: Engine, request: ReductionRequest) -> Reduction:
    """Reduce a case. The best program is always on disk; `resume` continues from it
    after an interruption.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        work = _begin(engine, request, stack)
        if isinstance(work, Reduction):
            return work
        found = work.run(stack)
    if isinstance(found, Reduction):
        return replace(found, seconds=round(time.monotonic() - started, 2))
    if work.oracle.problem:
        found = NoAnswer(Cause.ENVIRONMENT, work.oracle.problem)
    return Reduction(work.request.case, found, work.baseline.probes)


def find_first_wrong(engine: Engine, request: ReductionRequest) -> WrongValue | None:
    """Return the first value of a program that the bad toolchain computes wrong; None
    if it is not found. Nothing is reduced.
    """
    with ExitStack() as stack:
        work = _begin(engine, request, stack)
        if isinstance(work, Reduction):
            return None
        return work.first_wrong_value(stack)


def _begin(
    engine: Engine, request: ReductionRequest, stack: ExitStack
) -> _Work | Reduction:
    """Return a reduction that can go on, or why there is nothing to reduce."""
    bad, good = engine.registry.obtain(request.bad), None
    if request.good:
        good = engine.registry.obtain(request.good)
    start = measure_baseline(engine, request, bad, good)
    if isinstance(start, Reduction):
        return start
    references: list[Reference] = []
    if start.failure.stage is Stage.COMPILE or start.failure.is_number:
        request = replace(request, case=replace(request.case, run=None))
    else:
        references = references_for(engine, request, good)
        if not references:
            return not_reduced(request.case, start.probes, _NO_REFERENCE)
    case = request.case
    task = engine.progress.task(f"reduce  {case.name}", total=None)
    stack.callback(task.finish)
    read = engine.planner.input_of(case, bad)
    assert isinstance(read, Prepared)  # it was compiled
    key = (
        case.name,
        read.digest,
        settings_of(case),
        bad.identity,
        good and good.identity,
        start.failure.signature,
    )
    folder = ReductionFolder(engine.registry.home, repr(key))
    candidates = stack.enter_context(Scratch(folder.path / "candidates").folder())
    oracle, last = Oracle(engine, candidates, bad, good, start), list[Pass]()
    if case.run:
        values = ArgumentValues(folder.path / "values")
        last = [values.simplify_values]
        # Without the good toolchain: a candidate that fails was computed by the
        # reference.
        oracle = RunOracle(
            engine,
            candidates,
            bad,
            None,
            start,
            values=values,
            references=references,
            results=folder.path / "results",
            workers=PersistentWorkers(candidates, engine.stop),
        )
        stack.callback(oracle.workers.close)
    jobs = engine.jobs if start.is_portable else engine.local_jobs
    test = InterestingnessTest(oracle, folder.save, jobs, task)
    stack.callback(test.close)
    return _Work(engine, request, good, test, folder, last, read.path)


@dataclass(frozen=True)
class _Work:
    """A reduction in progress."""

    engine: Engine
    request: ReductionRequest
    good: Toolchain | None
    test: InterestingnessTest
    folder: ReductionFolder
    last: Sequence[Pass]
    """Passes after those of the frontend."""
    source: Path
    """The file that the compiler reads."""

    @property
    def oracle(self) -> Oracle:
        return self.test.oracle

    @property
    def baseline(self) -> Baseline:
        return self.test.oracle.baseline

    def first_wrong_value(self, stack: ExitStack) -> WrongValue | None:
        """Return the first wrong value of the original; None if it is not found."""
        search = self._search_of_wrong_value()
        if search is None:
            return None
        case = _in_less_time(self.request.case, self.baseline)
        frontends = frontends_for(
            self.engine, case, self.oracle.bad, self.source, stack
        )
        for frontend in frontends:
            opened = _open(frontend, self.source, case, self.test, None)
            if not isinstance(opened, NoAnswer):
                search.wrong_operation(opened.start)
        return search.found

    def run(self, stack: ExitStack) -> Reduction | NoAnswer:
        """Reduce with the first frontend that can read the program, or return why none
        can.
        """
        case, source = _in_less_time(self.request.case, self.baseline), self.source
        # an ONNX model is reduced itself, not what it is imported to
        if case.input.kind is InputKind.ONNX:
            source = case.input.path
        saved = self.folder.saved_state(case) if self.request.resume else None
        refusals: list[NoAnswer] = []
        frontends = frontends_for(
            self.engine, case, self.oracle.bad, self.source, stack
        )
        for frontend in frontends:
            opened = _open(frontend, source, case, self.test, saved)
            if isinstance(opened, NoAnswer):
                refusals.append(opened)
                continue
            wrong = self._search_of_wrong_value()
            candidate = self._run_passes(frontend, opened, wrong)
            found = self._probe_on_versions(opened.original, candidate)
            if found.unanswered is not None:
                return found
            value = wrong.found if wrong else None
            sentence = value.sentence if value else None
            how = [*frontend.notes]
            if refusals:
                how = [f"{refusals[-1].reason}: {note}" for note in how]
            notes = (
                *self.baseline.notes,
                *how,
                *self.oracle.notes,
                *found.notes,
            )
            if sentence:
                notes = (sentence, *notes)
            return replace(found, notes=notes, first_wrong=value)
        return refusals[0]

    def _run_passes(
        self, frontend: Frontend, opened: _Opened, wrong: FirstWrong | None
    ) -> ReducedCase:
        """Run all passes.

        If the smallest program does not fail in new processes, the oracle stops asking
        persistent workers. Then the passes run again from the first cut.
        """
        first_cut = opened.start
        if frontend.approach:
            first_cut = run_pass(first_cut, self.test, frontend.approach(opened.line))
        if wrong:
            first_cut = run_pass(first_cut, self.test, wrong.first_wrong_value)
        final = (*frontend.final_passes, *self.last)
        smallest = reduce(first_cut, self.test, frontend.passes, final)
        if self.oracle.confirm_in_new_processes(smallest):
            return smallest
        self.test.forget()
        return reduce(first_cut, self.test, frontend.passes, final)

    def _search_of_wrong_value(self) -> FirstWrong | None:
        """Return the search for the first wrong value; None if the failure is not a
        wrong result.
        """
        is_wrong = self.baseline.failure.stage is Stage.COMPARE
        if is_wrong and isinstance(self.oracle, RunOracle):
            return FirstWrong(self.oracle, self.source)
        return None

    def _probe_on_versions(
        self, original: ReducedCase, candidate: ReducedCase
    ) -> Reduction:
        """Probe the program on every version, in each form that can be written, and
        return the reduction.

        The form is kept that the fewest versions cannot test, so that the recipe holds
        on every version that is reported.
        """
        oracle, start, asked = self.oracle, self.baseline, self.request.case
        candidate = oracle.complete(candidate) or candidate
        run = candidate.case.run
        if run and asked.run:
            run = replace(run, limits=asked.run.limits)
        case = replace(
            candidate.case, limits=asked.limits, phase=asked.phase, run=run, expect=()
        )
        forms: list[_Form] = []
        for content in candidate.program.ways_to_write():
            form = self._probe_form(case, candidate.program, content)
            if isinstance(form, _Form):
                forms.append(form)
                if not form.untested:
                    break
        if not forms and isinstance(form, NoAnswer):
            return Reduction(asked, form, start.probes)
        if not forms:
            return not_reduced(asked, start.probes, _NOT_THE_SAME)
        # of equal ones the most readable
        best = min(forms, key=lambda form: form.untested)
        notes = () if start.failure.is_number else self._notes_on_versions(best)
        was, now = original.program, candidate.program
        pair = (was.content, best.content)
        lines = [text.rstrip(b"\n").count(b"\n") + 1 for text in pair]
        good = self.good.revision if self.good and not start.good_may_fail else None
        return Reduction(
            small=case,
            probes=best.probes,
            failure=best.failure,
            bad=oracle.bad.revision,
            good=good,
            program=best.content.decode("utf-8", "replace"),
            readable_probe=forms[0].on(self.request.bad),
            sizes=SizeChange(was.size, now.size),
            unit=now.unit,
            lines=SizeChange(*lines),
            bytes=SizeChange(*map(len, pair)),
            oracle_calls=oracle.calls,
            cached=oracle.cached,
            invalid=self.test.invalid,
            compile_seconds=round(oracle.seconds, 2),
            changes=tuple(setting_changes(asked, case)),
            notes=tuple(notes),
        )

    def _notes_on_versions(self, form: _Form) -> Iterator[str]:
        """Yield on which versions the original ends in another way than the reduced
        program.

        The original is compiled on the versions at the ends of the reduced program's
        span, which a reader takes for those of the original. Of others, what is known
        is compared.
        """
        case, registry = self.request.case, self.engine.registry
        refs, probes = self._versions(case), in_order(form.probes)
        span = span_around(probes, form.on(self.request.bad))
        ends = (span.before, span.first_bad, span.last_bad, span.after)
        jobs = [ProbeJob(case, refs[end.revision.name]) for end in ends if end]
        list(self.engine.probe_all(jobs, "probe the original"))
        known = (
            self.engine.cached_probe_on(case, registry.obtain(refs[each.revision.name]))
            for each in probes
        )
        original = self.baseline.probes[0].outcome
        assert isinstance(original, Failed)
        was = replay_states(
            map(result_of, filter(None, known)), original.failure.signature
        )
        now = replay_states(map(result_of, probes), form.failure.signature)
        for state, verb in _STATES.items():
            names = [
                name
                for name, old in was.items()
                if old == state and now[name] not in (state, ReplayState.UNTESTABLE)
            ]
            if names:
                yield f"the original {verb} on {', '.join(names)}"

    def _versions(self, case: Case) -> dict[str, ToolchainRef]:
        """Return the toolchains that a result is probed on, by name."""
        installed = self.engine.registry.installed_releases(case.compiler)
        named = [ref for ref in (self.request.bad, self.request.good) if ref]
        return {ref.revision.name: ref for ref in (*installed, *named)}

    def _probe_form(
        self, case: Case, program: Reducible, content: bytes
    ) -> _Form | NoAnswer | None:
        """Probe a form of the program on every version.

        Returns the form if it fails in the same way on the bad version, the reason if
        that version cannot test it, else None.
        """
        request, start = self.request, self.baseline
        # A path for each content, because digests are remembered by path.
        name = f"reduced-{sha256(content).hexdigest()[:12]}"
        path = self.folder.path / name / f"input.{program.suffix}"
        with disk_errors("write the reduced program"):
            write_whole(path, content)
        small = replace(
            case,
            name=f"{case.name} (reduced)",
            input=case.input.rewritten(path, program.kind),
        )
        refs = self._versions(case)
        jobs = [ProbeJob(small, ref) for ref in refs.values()]
        probes = {
            probe.revision.name: probe
            for probe in self.engine.probe_all(jobs, "probe the reduced program")
        }
        outcome = probes[request.bad.revision.name].outcome
        if isinstance(outcome, NoAnswer):
            return outcome
        if not isinstance(outcome, Failed) or not start.match(outcome.failure):
            return None
        if outcome.flaky and start.repeats == 1:
            return None
        if request.good:
            better = probes[request.good.revision.name].outcome
            if not start.lacks_failure(better):
                return None
        return _Form(content, outcome.failure, tuple(probes[name] for name in refs))


@dataclass(frozen=True)
class _Form:
    """A reduced program that fails as the original does."""

    content: bytes
    failure: Failure
    probes: tuple[Probe, ...]
    """On every version."""

    @property
    def untested(self) -> int:
        """How many versions cannot test it."""
        return sum(isinstance(probe.outcome, NoAnswer) for probe in self.probes)

    def on(self, ref: ToolchainRef) -> Probe:
        return next(
            probe for probe in self.probes if probe.revision.name == ref.revision.name
        )


def references_for(
    engine: Engine, request: ReductionRequest, good: Toolchain | None
) -> list[Reference]:
    """Return two references: one that computes the expected results of candidates, and
    one that confirms them. Return none if nothing computes them.

    The first is the good toolchain, else the case's own reference, else onnxruntime for
    an ONNX model. The second is the same without optimisation.
    """
    case = request.case
    first = case.run.reference if case.run else None
    if good:
        first = Reference(good.revision.name)
    if first is None and case.input.kind is InputKind.ONNX:
        first = Reference(onnxruntime=True)
    programs = engine.compilers[case.compiler].run
    if first is None or programs is None:
        return []
    plain = programs.unoptimised
    replaced = {flag_name(text) for text in plain}
    kept = [flag.text for flag in case.flags if flag_name(flag.text) not in replaced]
    return [first, Reference(first.toolchain, (*kept, *plain))]


def _in_less_time(case: Case, start: Baseline) -> Case:
    """Return the case with shorter limits, so that candidates that hang cost little."""
    limit = max(_SHORTEST, _PATIENCE * start.seconds)
    if start.seconds >= case.limits.timeout:  # the original hangs
        limit = _LONGEST_HANGING
    case = replace(
        case,
        limits=replace(
            case.limits, timeout=min(case.limits.timeout, limit), without_waiting=True
        ),
    )
    if case.run:
        limits = replace(
            case.run.limits,
            timeout=min(case.run.limits.timeout, _SHORTEST),
            without_waiting=True,
        )
        case = replace(case, run=replace(case.run, limits=limits))
    return case


@dataclass(frozen=True)
class _Opened:
    """A program that a frontend has read."""

    original: ReducedCase
    start: ReducedCase
    """The program to start from: the original, or the saved one."""
    line: int | None = None
    """The line of the original that the compiler points to."""


def _open(
    frontend: Frontend,
    source: Path,
    case: Case,
    test: InterestingnessTest,
    saved: tuple[Path, Case] | None,
) -> _Opened | NoAnswer:
    """Read the program and check that it fails, or continue from the saved program.

    Returns the reason if no form of the program can be reduced.
    """
    oracle = test.oracle
    if saved:
        with suppress(UnreadableError):
            original = next(
                (ReducedCase(program, case) for program in frontend.open(source)), None
            )
            if original is not None and oracle.prepare(original) is not None:
                oracle.begin_with(original)
                programs = (
                    ReducedCase(program, saved[1])
                    for program in frontend.open(saved[0])
                )
                found = test.first(filter(None, map(oracle.prepare, programs)))
                if found:
                    return _Opened(original, found)
    failure = oracle.baseline.failure
    variants = [case]
    if case.phase is None and failure.phase in oracle.bad.capabilities.phases:
        # first a compile that ends after the phase that fails
        variants.insert(0, replace(case, phase=failure.phase))
    why = "it cannot be read"
    try:
        # one at a time: with its constants a program may take gigabytes
        for program in frontend.open(source):
            if program.content_if_valid() is None:
                why = f"{frontend.form} is not valid"
                continue
            originals = (ReducedCase(program, variant) for variant in variants)
            candidates = list(filter(None, map(oracle.prepare, originals)))
            if not candidates:
                why = (
                    "the reference does not run it, its results are not defined, or "
                    "its arguments cannot be given others"
                )
                continue
            found = test.first(candidates)
            if found:
                oracle.begin_with(found)
                return _Opened(found, found, line_of(failure))
            why = f"{frontend.form} does not fail in the same way"
    except UnreadableError as error:
        why = str(error)
    return NoAnswer(Cause.INPUT, why)
