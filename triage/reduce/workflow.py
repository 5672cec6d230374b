"""Reduces a case that fails to a small program that fails the same way."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.invocation import flag_name
from triage.execution.engine import Engine
from triage.execution.files import Prepared, Scratch
from triage.execution.mlir_tools import Reader
from triage.execution.task import ProbeJob
from triage.model.case import Case, InputKind, Reference
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline, ReductionRequest, baseline
from triage.reduce.engine import Frontend, Pass, reduce, run_pass
from triage.reduce.frontends.mlir import mlir_frontend
from triage.reduce.frontends.mlir_program import Checker
from triage.reduce.frontends.python import parse_program, python_frontend
from triage.reduce.frontends.text import text_frontend
from triage.reduce.interestingness import InterestingnessTest, Oracle, line_of
from triage.reduce.program import ReducedCase, settings_of
from triage.reduce.result import Reduction, ReductionFolder, SizeChange, setting_changes
from triage.reduce.runs import ArgumentValues, RunOracle
from triage.toolchains.home import disk_errors, write_whole

# a candidate's time limit, as a multiple of the original's compile time
_PATIENCE = 4.0
_LEAST = 10.0  # seconds, the shortest time limit of a candidate
_MOST_HANGING = 30.0  # seconds for a candidate when the original timed out
_UNREADABLE = "it cannot be read by this toolchain's tools"
_NO_REFERENCE = (
    "nothing computes what a smaller program must return: name a toolchain that "
    "computes the right result with --good, or give the recipe's `run` a `reference`"
)


def frontends_for(
    engine: Engine, case: Case, toolchain: Toolchain, source: Path, stack: ExitStack
) -> list[tuple[Frontend, str | None]]:
    """Return the frontends for a case whose compiler reads `source`, each with a note
    on its choice.

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
        return [(ONNX, None)]
    found: list[tuple[Frontend, str | None]] = []
    why, suffix = "no tool of this toolchain reads the input", source.suffix.lstrip(".")
    if reader := _reader_of(engine, case, toolchain, source, stack):
        # Newer verifiers reject programs that older ones accept, and the reduced
        # program should be valid there too.
        newest = [
            engine.registry.obtain(ref)
            for ref in engine.registry.installed_releases(case.compiler)[-1:]
        ]
        others = [
            _reader_of(engine, case, other, source, stack)
            for other in newest
            if other.identity != toolchain.identity
        ]
        found = [(mlir_frontend(Checker(reader, list(filter(None, others)))), None)]
        why = "its generic form fails otherwise"
    elif suffix == "py" and parse_program(source.read_bytes()) is not None:
        found = [(python_frontend(case), None)]
        why = "it fails otherwise without its comments"
    if suffix != InputKind.BYTECODE and case.run is None:
        if suffix == InputKind.MLIR:
            kind = InputKind.MLIR
        else:
            kind = InputKind.OTHER
        found.append(
            (
                text_frontend(kind, suffix or "txt"),
                f"{why}: it was reduced as plain text, by blocks and lines",
            )
        )
    return found


def _reader_of(
    engine: Engine, case: Case, toolchain: Toolchain, path: Path, stack: ExitStack
) -> Reader | None:
    """Return the tools of a toolchain, if they read the file."""
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools:
        reader = Reader(tools, engine.stop)
    else:
        reader = None
    if reader and reader.parse_error(path):
        reader.close()
        return None
    if reader:
        stack.callback(reader.close)
    return reader


def reduce_case(engine: Engine, request: ReductionRequest) -> Reduction:
    """Reduce a case. The best program is always on disk; `resume` continues from it
    after an interruption.
    """
    started = time.monotonic()
    bad = engine.registry.obtain(request.bad)
    if request.good:
        good = engine.registry.obtain(request.good)
    else:
        good = None
    start = baseline(engine, request, bad, good)
    if isinstance(start, Reduction):
        return start
    references: list[Reference] = []
    if start.failure.stage is Stage.COMPILE:
        request = replace(request, case=replace(request.case, run=None))
    elif not (references := references_for(engine, request, good)):
        return Reduction(request.case, _NO_REFERENCE, probes=start.probes)
    with ExitStack() as stack:
        task = engine.progress.task(f"reduce  {request.case.name}", total=None)
        stack.callback(task.finish)
        case, read = request.case, engine.planner.input_of(request.case, bad)
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
            results = folder.path / "results"
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
                results=results,
            )
        test = InterestingnessTest(
            oracle,
            folder.save,
            engine.jobs if start.is_portable else engine.local_jobs,
            task,
        )
        stack.callback(test.close)
        case, refusals = _in_less_time(case, start), list[NoAnswer]()
        # reduced before it is imported
        if case.input.kind is InputKind.ONNX:
            source = case.input.path
        else:
            source = read.path
        if request.resume:
            saved = folder.best(case)
        else:
            saved = None
        for frontend, note in frontends_for(engine, case, bad, read.path, stack):
            opened = _open(frontend, source, case, test, saved)
            if isinstance(opened, NoAnswer):
                refusals.append(opened)
                continue
            original, candidate, line = opened
            if frontend.approach:
                candidate = run_pass(candidate, test, frontend.approach(line))
            candidate = reduce(
                candidate, test, frontend.passes, (*frontend.final_passes, *last)
            )
            found = _finished(original, candidate, request, good, test, folder)
            notes = (*start.notes, *([note] if note else []), *oracle.notes)
            seconds = round(time.monotonic() - started, 2)
            if found.reason is None:
                return replace(found, notes=notes, seconds=seconds)
            return found
        unread = NoAnswer(Cause.INPUT, _UNREADABLE)
        why = next(iter(refusals), unread)
        if oracle.problem:
            why = NoAnswer(Cause.ENVIRONMENT, oracle.problem)
        return Reduction(
            request.case,
            why.reason,
            why.cause,
            start.probes,
        )


def references_for(
    engine: Engine, request: ReductionRequest, good: Toolchain | None
) -> list[Reference]:
    """Return what computes the expected results of candidates, and what confirms them;
    nothing when nothing computes them.

    The good toolchain, else the case's own reference, else onnxruntime for an ONNX
    model. The same toolchain without optimisation confirms it.
    """
    case = request.case
    if case.run:
        first = case.run.reference
    else:
        first = None
    if good:
        first = Reference(good.revision.name)
    if first is None and case.input.kind is InputKind.ONNX:
        first = Reference(onnxruntime=True)
    programs = engine.compilers[case.compiler].run
    if first is None or programs is None:
        return []
    plain = programs.unoptimised
    kept = [
        flag.text
        for flag in case.flags
        if flag_name(flag.text) not in map(flag_name, plain)
    ]
    return [first, Reference(first.toolchain, (*kept, *plain))]


def _in_less_time(case: Case, start: Baseline) -> Case:
    """Return the case with limits for its candidates: those that hang cost little."""
    hanging = start.seconds >= case.limits.timeout
    if hanging:
        limit = _MOST_HANGING
    else:
        limit = max(_LEAST, _PATIENCE * start.seconds)
    case = replace(
        case,
        limits=replace(
            case.limits, timeout=min(case.limits.timeout, limit), without_waiting=True
        ),
    )
    if case.run:
        limits = replace(
            case.run.limits,
            timeout=min(case.run.limits.timeout, _LEAST),
            without_waiting=True,
        )
        case = replace(case, run=replace(case.run, limits=limits))
    return case


def _open(
    frontend: Frontend,
    source: Path,
    case: Case,
    test: InterestingnessTest,
    saved: tuple[Path, Case] | None,
) -> tuple[ReducedCase, ReducedCase, int | None] | NoAnswer:
    """Return the original, the program to start from and the line of the original that
    the compiler points to.

    There is no line for a saved program.
    """
    oracle = test.oracle
    if saved:
        original = next(
            (ReducedCase(program, case) for program in frontend.open(source)), None
        )
        if original is not None and oracle.start(original) is not None:
            oracle.keep_operation(original)
            programs = (
                ReducedCase(program, saved[1]) for program in frontend.open(saved[0])
            )
            found = test.first(
                best for candidate in programs if (best := oracle.start(candidate))
            )
            if found:
                return original, found, None
    failure = oracle.baseline.failure
    early = case.phase is None and failure.phase in oracle.bad.capabilities.phases
    # first the one that ends early
    variants = [*([replace(case, phase=failure.phase)] if early else []), case]
    why = _UNREADABLE
    # one at a time: with its constants a program may take gigabytes
    for program in frontend.open(source):
        candidates = [
            start
            for variant in variants
            if (start := oracle.start(ReducedCase(program, variant)))
        ]
        if not candidates:
            why = (
                "the reference does not run it, its results are not defined, or its "
                "arguments cannot be given others"
            )
            continue
        found = test.first(candidates)
        if found:
            oracle.keep_operation(found)
            return found, found, line_of(failure)
        if case.run:
            why = "it does not fail in the same way"
        else:
            why = "its generic form does not fail in the same way"
    return NoAnswer(Cause.INPUT, why)


def _finished(
    original: ReducedCase,
    candidate: ReducedCase,
    request: ReductionRequest,
    good: Toolchain | None,
    test: InterestingnessTest,
    folder: ReductionFolder,
) -> Reduction:
    """Probe the program on every version, in each form that can be written.

    The form is kept that the fewest versions cannot test, so that the recipe holds on
    every version that is reported.
    """
    oracle, asked = test.oracle, request.case
    registry, start = oracle.engine.registry, oracle.baseline
    candidate = oracle.complete(candidate) or candidate
    case = candidate.case
    run = case.run
    if run and asked.run:
        run = replace(run, limits=asked.run.limits)
    case = replace(case, limits=asked.limits, phase=asked.phase, run=run, expect=())
    named = (request.bad, *([request.good] if request.good else []))
    refs = {
        ref.revision.name: ref
        for ref in (*registry.installed_releases(case.compiler), *named)
    }
    forms: list[tuple[int, bytes, tuple[Probe, ...], Failure]] = []
    for content in candidate.program.written():
        # A path for each content, because digests are remembered by path.
        path = (
            folder.path
            / f"reduced-{sha256(content).hexdigest()[:12]}"
            / f"input.{candidate.program.suffix}"
        )
        with disk_errors("write the reduced program"):
            write_whole(path, content)
        small = replace(
            case,
            name=f"{case.name} (reduced)",
            input=case.input.rewritten(path, candidate.program.kind),
        )
        jobs = [ProbeJob(small, ref) for ref in refs.values()]
        probes = {
            probe.revision.name: probe
            for probe in oracle.engine.probe_all(jobs, "probe the reduced program")
        }
        untested = sum(isinstance(probe.outcome, NoAnswer) for probe in probes.values())
        outcome = probes[request.bad.revision.name].outcome
        is_same = (
            isinstance(outcome, Failed)
            and start.match(outcome.failure)
            and (not outcome.flaky or start.repeats > 1)
        )
        if request.good and not start.is_without(
            probes[request.good.revision.name].outcome
        ):
            is_same = False
        if is_same and outcome.failure:
            forms.append(
                (
                    untested,
                    content,
                    tuple(probes[name] for name in refs),
                    outcome.failure,
                )
            )
            if not untested:
                break
    if not forms and isinstance(outcome, NoAnswer):
        return Reduction(asked, outcome.reason, outcome.cause, start.probes)
    if not forms:
        why = (
            "the reduced program does not fail in the same way when it is probed in "
            "full"
        )
        return Reduction(asked, why, probes=start.probes)
    # of equal ones the most readable
    _, content, tested, failure = min(forms, key=lambda form: form[0])
    was, now = original.program, candidate.program
    return Reduction(
        small=case,
        probes=tested,
        failure=failure,
        bad=oracle.bad.revision,
        good=good.revision if good and not start.changed else None,  # that compiles it
        program=content.decode("utf-8", "replace"),
        readable=next(
            probe
            for probe in forms[0][2]
            if probe.revision.name == request.bad.revision.name
        ),
        operations=SizeChange(was.size, now.size),
        unit=now.unit,
        lines=SizeChange(
            *(text.rstrip(b"\n").count(b"\n") + 1 for text in (was.content, content))
        ),
        bytes=SizeChange(len(was.content), len(content)),
        oracle_calls=oracle.calls,
        cached=oracle.cached,
        invalid=test.invalid,
        compile_seconds=round(oracle.seconds, 2),
        changes=tuple(setting_changes(asked, case)),
    )
