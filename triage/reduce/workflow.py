"""Reduces a case that fails to a small program that fails in the same way.

`reduce_case` compiles the original on both toolchains, opens its program in the first
form that fails, runs the passes, and probes the result on every version.

Each answer about a candidate is cached, and the search is deterministic. So an
interrupted reduction continues where it was when it is started again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from triage.execution.compare import same_signature, same_wrong_result
from triage.execution.engine import Engine
from triage.execution.judge import rules_of
from triage.execution.mlir_tools import Reader
from triage.execution.persistent_workers import PersistentWorkers
from triage.execution.task import PassNaming, Prepared, ProbeJob
from triage.model.case import Case, InputKind, Reference
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed, Probe
from triage.model.revision import Toolchain
from triage.reduce.interestingness import (
    ArgumentValues,
    Baseline,
    CompileTest,
    RunTest,
    run_of,
)
from triage.reduce.mlir import mlir_form
from triage.reduce.problem import (
    Form,
    Pass,
    Program,
    ReductionProblem,
    UnreadableError,
)
from triage.reduce.python import python_form
from triage.reduce.reproducer import sorted_by_version
from triage.reduce.result import Reduction, SizeChange
from triage.reduce.text import text_form
from triage.toolchains.home import KeptKind, disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

# a candidate's time limit, as a multiple of the original's compile time
_PATIENCE = 4.0
_SHORTEST = 10.0  # seconds, the shortest time limit of a candidate
_LONGEST_HANGING = 30.0  # seconds for a candidate when the original timed out
_REPEATS = 8  # compiles of a program before it counts as passing, of a flaky failure
# families that may be flaky, so that they are compiled twice
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))
_NO_REFERENCE = (
    "nothing computes what a smaller program must return: name a toolchain that "
    "computes the right result with --good, or give the recipe's `run` a `reference`"
)
_NOT_THE_SAME = (
    "the reduced program does not fail in the same way when it is probed in full"
)


class NotReducibleError(Exception):
    """Why a case cannot be reduced."""

    def __init__(self, cause: Cause, why: str) -> None:
        super().__init__(why)
        self.answer = NoAnswer(cause, why)


def reduce_case(
    engine: Engine, case: Case, bad: ToolchainRef, good: ToolchainRef | None
) -> Reduction:
    """Reduce a case, or return why it is not reduced."""
    started = time.monotonic()
    name = case.name
    refs = [bad, good] if good else [bad]
    if good:
        compiler = engine.compilers[case.compiler]
        case = compiler.with_reference(case, good.revision.name)
    with ExitStack() as stack:
        task = engine.progress.task(f"reduce  {name}: the original")
        update = stack.enter_context(task)
        probes = _probe_original(engine, case, refs)
        try:
            baseline = _measure_baseline(engine, probes, bad, good)
            prepared = engine.inputs.input_of(baseline.case, baseline.toolchain)
            assert isinstance(prepared, Prepared)  # it was compiled
            folder = engine.registry.home.folder(KeptKind.REDUCTIONS)
            folder /= prepared.digest[:16]
            test = _interestingness_test(engine, baseline, folder, stack)
            forms = _forms_for(engine, test.baseline, prepared.path, stack)
            form, start = _open_failing(test, forms)
            problem = ReductionProblem(start, test, test.jobs)
            for step in _passes(problem, form):
                activity = step.__name__.replace("_", " ")
                size = f"{problem.current.size} {start.unit}s left"
                update(f"reduce  {name}: {activity}, {size}", 0)
                problem.run(step)
            reduction = _probe_smallest(test, case, start, problem.current, folder)
        except NotReducibleError as error:
            return Reduction(case, error.answer, probes)
    seconds = round(time.monotonic() - started, 2)
    return replace(reduction, seconds=seconds, oracle_calls=test.compile_count)


def _passes(problem: ReductionProblem, form: Form) -> Iterator[Pass]:
    """Yield the first passes, then the form's in rounds until a round makes nothing
    smaller, then the final ones.
    """
    yield from form.first_passes
    for _ in range(8):  # more have not been seen to help
        before = problem.current
        yield from form.passes
        if problem.current is before:
            break
    yield from form.final_passes


def _probe_original(
    engine: Engine, case: Case, refs: Sequence[ToolchainRef]
) -> tuple[Probe, ...]:
    """Probe the case, or take the cached results. One that fails to compile is not run:
    what it would compute does not matter.
    """
    probes = tuple(
        engine.cached_probe(ProbeJob(case, ref))
        or engine.probe(ProbeJob(case, ref, once=PassNaming.NEVER))
        for ref in refs
    )
    failure = probes[0].outcome.failure
    if case.run and failure and failure.stage is Stage.COMPILE:
        return _probe_original(engine, replace(case, run=None), refs)
    return probes


def _measure_baseline(
    engine: Engine,
    probes: Sequence[Probe],
    bad: ToolchainRef,
    good: ToolchainRef | None,
) -> Baseline:
    """Compile the original as often as tells whether it always fails alike. Raises
    NotReducibleError.
    """
    case = probes[0].case
    failure = _failure_to_keep(probes)
    naming, times = _naming_and_repeats(case, failure)
    # as smaller programs are compiled
    repeated = [
        engine.probe(ProbeJob(case, bad, once=naming, attempt=attempt))
        for attempt in range(times)
    ]
    for probe in repeated[:1]:
        failure = probe.outcome.failure or failure
    match = same_signature(failure)
    if failure.failure_class == "wrong-result":
        # the signature has the index of the result, which may change
        match = same_wrong_result(failure)
    outcomes = [probe.outcome for probe in (probes[0], *repeated)]
    is_sure = all(
        outcome.failure and match(outcome.failure) and not outcome.flaky
        for outcome in outcomes
    )
    if not is_sure and failure.stage is not Stage.COMPILE:
        why = f"runs on {bad.revision.name} end differently"
        raise NotReducibleError(Cause.NOT_FOUND, why)
    return Baseline(
        case,
        bad,
        good,
        toolchain=engine.registry.obtain(bad),
        failure=failure,
        match=match,
        naming=naming,
        seconds=(repeated or probes)[0].measured.seconds,
        repeats=1 if is_sure else _REPEATS,
        probes=(*probes, *repeated),
    )


def _naming_and_repeats(case: Case, failure: Failure) -> tuple[PassNaming, int]:
    """Return whether compiles must name the failing pass, and how often the original is
    compiled again.
    """
    times = 2 if failure.family in _DOUBTED else 0
    rule = rules_of(case).by_name.get(failure.failure_class)
    if failure.family == "crash" or (rule and rule.needs_pass):
        return PassNaming.IN_FIRST_COMPILE, max(times, 1)
    return PassNaming.NEVER, times


def _failure_to_keep(probes: Sequence[Probe]) -> Failure:
    """Find the failure on the bad toolchain. Raises NotReducibleError if there is none,
    if the good toolchain fails, or if one cannot be tested.
    """
    for probe in probes:
        if isinstance(probe.outcome, NoAnswer):
            why = f"untestable on {probe.revision.name}: {probe.outcome.reason}"
            raise NotReducibleError(probe.outcome.cause, why)
    bad, *good = probes
    failure = bad.outcome.failure
    name = bad.revision.name
    why = f"it passes on {name}; there is nothing to reduce"
    if failure and failure.stage is Stage.IMPORT:
        why = f"the importer of {name} fails before the compiler runs"
    elif good and isinstance(good[0].outcome, Failed):
        why = f"it fails on {good[0].revision.name}, the --good version, too"
    elif failure and failure.family == "target" and not good:
        why = f"{name} does not know its target: {failure.headline}"
    elif failure:
        return failure
    raise NotReducibleError(Cause.NOT_FOUND, why)


def _interestingness_test(
    engine: Engine, baseline: Baseline, folder: Path, stack: ExitStack
) -> CompileTest:
    """Return the test of smaller programs. Raises NotReducibleError if nothing computes
    what they must return.
    """
    candidates = stack.enter_context(engine.folder())
    failure = baseline.failure
    plain = replace(baseline.case, run=None)
    if failure.stage is Stage.COMPILE or failure.is_of_metric:
        return CompileTest(engine, replace(baseline, case=plain), candidates)
    compiler = engine.compilers[plain.compiler]
    if compiler.runs_script(plain):
        return CompileTest(engine, baseline, candidates)  # its results are in its text
    reference = run_of(baseline.case).reference
    if baseline.good_ref:
        reference = Reference(baseline.good_ref.revision.name)
    if reference is None or compiler.run is None:
        raise NotReducibleError(Cause.NOT_FOUND, _NO_REFERENCE)
    workers = PersistentWorkers(candidates, engine.stop)
    stack.callback(workers.close)
    other = Reference(reference.toolchain, compiler.run.unoptimised)
    return RunTest(
        engine,
        baseline,
        candidates,
        values=ArgumentValues(folder / "values"),
        references=[reference, other],
        results=folder / "results",
        workers=workers,
    )


def _forms_for(
    engine: Engine, baseline: Baseline, source: Path, stack: ExitStack
) -> Iterator[Form]:
    """Yield the forms of a case whose compiler reads `source`.

    One that understands the program comes first, then plain text.
    """
    case = baseline.case
    suffix = source.suffix.lstrip(".")
    if suffix == "py":
        yield python_form(case, source)
    elif suffix == InputKind.ONNX:
        try:
            from triage.reduce.onnx import onnx_form
        except ImportError as error:
            advice = "pip install 'iree-triage[onnx]'"
            raise BadInput(f"an ONNX model needs an extra: {advice}") from error
        yield onnx_form(case, source)
    else:
        readers = list(_readers_of(engine, baseline.toolchain, stack))
        if readers:
            yield mlir_form(readers, case, source, baseline.failure)
    if suffix not in (InputKind.BYTECODE, InputKind.ONNX) and case.run is None:
        yield text_form(case, source)


def _readers_of(
    engine: Engine, toolchain: Toolchain, stack: ExitStack
) -> Iterator[Reader]:
    """Yield the MLIR tools of a toolchain, and of the newest installed release, because
    its verifier rejects more. Yield none if the toolchain has none.
    """
    newest = engine.registry.installed_releases(toolchain.family)[-1:]
    providers = [toolchain, *map(engine.registry.obtain, newest)]
    for provider in {provider.identity: provider for provider in providers}.values():
        tools = engine.compilers[provider.family].mlir_tools(provider)
        if tools is None:
            return
        reader = Reader(tools, engine.stop)
        stack.callback(reader.close)
        yield reader


def _open_failing(test: CompileTest, forms: Iterator[Form]) -> tuple[Form, Program]:
    """Return the first form of the program that fails, and the program in it. Raises
    NotReducibleError.
    """
    baseline = test.baseline
    why = "no tool reads the input"
    cases = [_with_short_limits(baseline)]
    phase = baseline.failure.phase
    if cases[0].phase is None and phase in baseline.toolchain.capabilities.phases:
        # first a compile that ends after the phase that fails
        cases.insert(0, replace(cases[0], phase=phase))
    for form in forms:
        try:
            # one at a time: with its constants a program may take gigabytes
            for program in form.programs:
                why = "its reduced form does not fail in the same way"
                for case in cases:
                    start = test.choose_start(replace(program, case=case))
                    if start:
                        return form, start
        except UnreadableError as error:
            why = str(error)
    cause = Cause.INPUT
    for probe in test.probes:
        outcome = probe.outcome
        if isinstance(outcome, NoAnswer) and outcome.cause is Cause.ENVIRONMENT:
            cause = outcome.cause
            why = outcome.reason
    raise NotReducibleError(cause, why)


def _with_short_limits(baseline: Baseline) -> Case:
    """Return the case with shorter limits, so that candidates that hang cost little."""
    case = baseline.case
    longest = max(_SHORTEST, _PATIENCE * baseline.seconds)
    if baseline.seconds >= case.limits.timeout:  # the original hangs
        longest = _LONGEST_HANGING
    limits = replace(case.limits, timeout=min(case.limits.timeout, longest))
    return replace(case, limits=limits)


def _smallest_case(
    test: CompileTest, original: Case, program: Program, folder: Path
) -> Case:
    """Write the smallest program, and return its case under the original's limits."""
    content = program.readable_content
    # A path for each content, because digests are remembered by path.
    name = f"reduced-{sha256(content).hexdigest()[:12]}"
    path = folder / name / f"input.{program.suffix}"
    with disk_errors("write the reduced program"):
        write_whole(path, content)
    return replace(
        test.complete_case(program),
        name=f"{original.name} (reduced)",
        input=original.input.rewritten(path, program.kind),
        limits=original.limits,
        phase=original.phase,
        expect=(),
    )


def _probe_smallest(
    test: CompileTest, original: Case, start: Program, program: Program, folder: Path
) -> Reduction:
    """Probe the smallest program on every version, and return the reduction. Raises
    NotReducibleError if it does not fail as the original.
    """
    baseline = test.baseline
    case = _smallest_case(test, original, program, folder)
    installed = test.engine.registry.installed_releases(case.compiler)
    refs = {ref.revision.name: ref for ref in (*installed, *baseline.refs)}
    jobs = [ProbeJob(case, ref) for ref in refs.values()]
    probes = sorted_by_version(test.engine.probe_all(jobs, "probe the reduced program"))
    outcomes = {probe.revision.name: probe.outcome for probe in probes}
    failed, *others = [outcomes[ref.revision.name] for ref in baseline.refs]
    if isinstance(failed, NoAnswer):
        raise NotReducibleError(failed.cause, failed.reason)
    is_same = (
        isinstance(failed, Failed)
        and baseline.match(failed.failure)
        and not (failed.flaky and baseline.repeats == 1)
    )
    if not is_same or not all(isinstance(other, Passed) for other in others):
        raise NotReducibleError(Cause.NOT_FOUND, _NOT_THE_SAME)
    content = case.input.path.read_bytes()
    lines = [text.rstrip(b"\n").count(b"\n") + 1 for text in (start.content, content)]
    return Reduction(
        small=replace(case, name=original.name),
        probes=probes,
        failure=failed.failure,
        bad=baseline.bad_ref.revision,
        good=baseline.good_ref.revision if baseline.good_ref else None,
        sizes=SizeChange(start.size, program.size),
        unit=program.unit,
        lines=SizeChange(*lines),
        bytes=SizeChange(len(start.content), len(content)),
    )
