"""Probe one case on one toolchain: recall, run, doubt, name the pass, record."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import mkdtemp

import psutil

from triage.classify import FailingPass, PassScanner
from triage.compilers.port import Compiler, Invocation, Ir, MlirTools
from triage.model.case import Case
from triage.model.execution import Ending, Execution
from triage.model.failure import Failure
from triage.model.outcome import Cause, Compiled, Failed, Measured, Outcome, Untestable
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.evidence import Evidence, Record, key_of
from triage.probe.inputs import Inputs, Prepared
from triage.probe.judge import judge, needs_pass, rules_of
from triage.probe.process import Switch, run
from triage.toolchains.home import disk_errors

_NOT_BELIEVED_ONCE = (Ending.SIGNALLED, Ending.TIMED_OUT, Ending.OVER_MEMORY)


class Naming(StrEnum):
    """Whether a trial finds out which pass failed. AT_ONCE: the run itself names it, on one thread, so that a crash has
    the same stack each time; only a crash whose stack has no names is run once more.
    """

    NEVER = "never"
    AT_ONCE = "at once"


class Prober:
    """Runs cases. Holds no state but the evidence store, the inputs and a stop switch; safe for several threads."""

    def __init__(
        self, home: Path, compilers: Mapping[str, Compiler], evidence: Evidence, inputs: Inputs, stop: threading.Event
    ) -> None:
        self._compilers = compilers
        self._evidence = evidence
        self._inputs = inputs
        self._stop = stop
        self._scratch = home / "scratch"
        with disk_errors("make room for compiles"):
            self._scratch.mkdir(parents=True, exist_ok=True)
            _sweep(self._scratch)

    def probe(self, case: Case, toolchain: Toolchain, *, fresh: bool = False) -> Probe:
        """The outcome of a case on a toolchain, from the evidence where it is known, unless `fresh`.

        Raises process.Interrupted when the stop switch is thrown; then nothing is recorded.
        """
        prepared = self._inputs.prepare(case)
        if isinstance(prepared, Untestable):
            return _untested(case, toolchain, prepared)
        invocation = self._compilers[case.compiler].invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return _untested(case, toolchain, invocation)
        limits = (case.limits.timeout, case.limits.memory)
        key = key_of(toolchain.identity, prepared.digest, invocation.options, limits)
        if not fresh and (known := self._evidence.find(key)):
            return _probe_of(case, toolchain, known, cached=True)
        record = self._run(case, toolchain, prepared, invocation, key)
        probe = _probe_of(case, toolchain, record, cached=False)
        if not _is_passing_trouble(probe.outcome):
            self._evidence.add(record)
        return probe

    def recall(self, case: Case, toolchain: Toolchain) -> Probe | None:
        """What is known of a case on a toolchain; None where that is nothing. Compiles nothing."""
        prepared = self._inputs.prepare(case)
        invocation = self._compilers[case.compiler].invocation(case, toolchain)
        for answer in (prepared, invocation):
            if isinstance(answer, Untestable):
                return _untested(case, toolchain, answer)
        assert isinstance(prepared, Prepared)
        assert isinstance(invocation, Invocation)
        limits = (case.limits.timeout, case.limits.memory)
        known = self._evidence.find(key_of(toolchain.identity, prepared.digest, invocation.options, limits))
        return _probe_of(case, toolchain, known, cached=True) if known else None

    def trial(
        self, case: Case, toolchain: Toolchain, naming: Naming, *, attempt: int = 0, cancelled: Switch | None = None
    ) -> Probe:
        """One run, believed at once and kept apart from probes in the evidence: for a search that tries many programs
        and probes in full the one it ends with.

        attempt: which repetition it is, each is known by itself; cancelled: ends the run before its time, with Interrupted.
        """
        prepared = self._inputs.prepare(case)
        if isinstance(prepared, Untestable):
            return _untested(case, toolchain, prepared)
        compiler = self._compilers[case.compiler]
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return _untested(case, toolchain, invocation)
        limits = (case.limits.timeout, case.limits.memory)
        key = key_of(toolchain.identity, prepared.digest, (*invocation.options, f"trial {attempt} {naming}"), limits)
        if known := self._evidence.find(key):
            return _probe_of(case, toolchain, known, cached=True)
        stop, scanner = _Either(self._stop, cancelled), None
        if naming is Naming.AT_ONCE:
            invocation, scanner = compiler.naming_the_pass(invocation, crashed=False), PassScanner()
        execution = self._execute(case, toolchain, prepared, invocation, scanner, stop)
        failing_pass = scanner.finish() if scanner else None
        if scanner and execution.ending is Ending.SIGNALLED and not _has_frames(execution):
            failing_pass = self._name_pass(case, toolchain, prepared, invocation, crashed=True, stop=stop)
        record = _record(key, case, toolchain, prepared, execution, failing_pass)
        probe = _probe_of(case, toolchain, record, cached=False)
        if not _is_passing_trouble(probe.outcome):
            self._evidence.add(record)
        return probe

    def input_of(self, case: Case) -> Prepared | Untestable:
        """The file that the compiler is given for a case, or why there is none."""
        return self._inputs.prepare(case)

    def mlir_tools(self, case: Case, toolchain: Toolchain) -> MlirTools | None:
        """What a toolchain has for reading MLIR."""
        return self._compilers[case.compiler].mlir_tools(toolchain)

    def ir_of(self, family: str) -> Ir | None:
        """How a family's IR is printed; None where it cannot be."""
        return self._compilers[family].ir()

    def observe(
        self,
        case: Case,
        toolchain: Toolchain,
        alter: Callable[[Invocation], Invocation],
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: Callable[[Path], None] | None = None,
    ) -> Execution | Untestable:
        """One run that is watched: of the case's invocation as `alter` makes it, nothing recalled and nothing recorded.

        on_stderr: is given all of standard error as it comes; on_output: the path of what a run that ended well wrote,
        while it is there. Untestable when there is nothing to run. Raises process.Interrupted as `probe` does.
        """
        prepared = self._inputs.prepare(case)
        if isinstance(prepared, Untestable):
            return prepared
        invocation = self._compilers[case.compiler].invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return invocation
        altered = alter(invocation)
        with self._workplace() as place:
            argv = altered.argv(toolchain.program, prepared.path, output := place / "out")
            execution = run(argv, case.limits, place, env=altered.env, stop=self._stop, on_stderr=on_stderr)
            if on_output and execution.ok and output.is_file():
                on_output(output)
        return execution

    def recorded(self, case: Case, toolchain: Toolchain) -> tuple[Invocation, Execution] | None:
        """The invocation of a case that was probed and what came of it; None where nothing is on record."""
        prepared = self._inputs.prepare(case)
        invocation = self._compilers[case.compiler].invocation(case, toolchain)
        if isinstance(prepared, Untestable) or isinstance(invocation, Untestable):
            return None
        limits = (case.limits.timeout, case.limits.memory)
        known = self._evidence.find(key_of(toolchain.identity, prepared.digest, invocation.options, limits))
        return (invocation, known.execution) if known else None

    def command_line(self, case: Case, toolchain: Toolchain) -> str:
        """What `probe` would run, as a line for a shell; a comment with the reason where it would run nothing."""
        prepared = self._inputs.prepare(case)
        invocation = self._compilers[case.compiler].invocation(case, toolchain)
        for answer in (prepared, invocation):
            if isinstance(answer, Untestable):
                return f"# {case.name} on {toolchain.revision.name}: {answer.reason}"
        assert isinstance(prepared, Prepared)
        assert isinstance(invocation, Invocation)
        settings = [f"{name}={value}" for name, value in invocation.env.items()]
        return shlex.join([*settings, *invocation.argv(toolchain.program, prepared.path, Path(os.devnull))])

    def _run(self, case: Case, toolchain: Toolchain, prepared: Prepared, invocation: Invocation, key: str) -> Record:
        runs = [self._execute(case, toolchain, prepared, invocation)]
        if runs[0].ending in _NOT_BELIEVED_ONCE:
            runs.append(self._execute(case, toolchain, prepared, invocation))
            if _face(runs[0]) != _face(runs[1]):
                runs.append(self._execute(case, toolchain, prepared, invocation))
        faces = [_face(execution) for execution in runs]
        chosen = max(runs, key=lambda execution: faces.count(_face(execution)))
        agreeing = faces.count(_face(chosen))
        failing_pass = None
        if needs_pass(chosen):
            crashed = chosen.ending is Ending.SIGNALLED
            failing_pass = self._name_pass(case, toolchain, prepared, invocation, crashed=crashed)
        record = _record(key, case, toolchain, prepared, chosen, failing_pass)
        return replace(record, runs=agreeing, disagreements=len(runs) - agreeing)

    def _execute(
        self,
        case: Case,
        toolchain: Toolchain,
        prepared: Prepared,
        invocation: Invocation,
        scanner: PassScanner | None = None,
        stop: Switch | None = None,
    ) -> Execution:
        """One run in a folder of its own. `scanner` reads all of standard error as it comes, IR of any length included."""
        with self._workplace() as place:
            output = place / "out"
            argv = invocation.argv(toolchain.program, prepared.path, output)
            feed = scanner.feed if scanner else None
            execution = run(argv, case.limits, place, env=invocation.env, stop=stop or self._stop, on_stderr=feed)
            size = output.stat().st_size if execution.ok and output.is_file() else None
            told = self._compilers[case.compiler].told(execution)
            return replace(execution, output_bytes=size, phase=told.phase, metrics=told.metrics)

    def _name_pass(
        self,
        case: Case,
        toolchain: Toolchain,
        prepared: Prepared,
        invocation: Invocation,
        *,
        crashed: bool,
        stop: Switch | None = None,
    ) -> FailingPass | None:
        """The failing pass, from a second run that prints it."""
        scanner = PassScanner()
        named = self._compilers[case.compiler].naming_the_pass(invocation, crashed=crashed)
        if named == invocation:  # a family without passes, or whose first run has told all there is
            return None
        self._execute(case, toolchain, prepared, named, scanner, stop)
        return scanner.finish()

    @contextmanager
    def _workplace(self) -> Iterator[Path]:
        """A folder of this process alone, gone afterwards: what a compiler drops in its working folder stays in there."""
        with disk_errors("make room for a compile"):
            place = Path(mkdtemp(prefix=f"{os.getpid()}-", dir=self._scratch))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Either:
    """Two switches as one."""

    first: Switch
    second: Switch | None

    def is_set(self) -> bool:
        return self.first.is_set() or (self.second is not None and self.second.is_set())


def _record(
    key: str, case: Case, toolchain: Toolchain, prepared: Prepared, execution: Execution, failing_pass: FailingPass | None
) -> Record:
    return Record(
        key=key,
        case_name=case.name,
        toolchain=toolchain.revision.name,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        execution=replace(execution, argv=tuple(_portable(execution.argv, toolchain, prepared))),
        failing_pass=failing_pass,
        metrics=dict(execution.metrics)
        | ({} if execution.output_bytes is None else {"artifact_bytes": execution.output_bytes}),
    )


def _face(execution: Execution) -> tuple[str, str]:
    """What two runs must have in common to agree. Of a crash that is the signal: with several threads the stack is
    another each time.
    """
    if execution.ending is Ending.SIGNALLED:
        return "signalled", str(execution.signal)
    match judge(execution):
        case Compiled():
            return "compiled", ""
        case Failed(failure=Failure(signature=signature)):
            return "failed", signature
        case Untestable(cause=cause):
            return "untestable", cause


def _has_frames(execution: Execution) -> bool:
    outcome = judge(execution)
    return isinstance(outcome, Failed) and "frames" in outcome.failure.details


def _is_passing_trouble(outcome: Outcome) -> bool:
    return isinstance(outcome, Untestable) and outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN)


def _probe_of(case: Case, toolchain: Toolchain, record: Record, *, cached: bool) -> Probe:
    execution = record.execution
    return Probe(
        case=case,
        revision=toolchain.revision,
        version=toolchain.version,
        outcome=judge(execution, record.failing_pass, flaky=record.disagreements > 0, rules=rules_of(case)),
        measured=Measured(execution.seconds, execution.cpu_seconds, execution.peak_rss_mb, record.metrics),
        cached=cached,
    )


def _untested(case: Case, toolchain: Toolchain, why: Untestable) -> Probe:
    return Probe(case, toolchain.revision, toolchain.version, why, Measured(), cached=False)


def _portable(argv: tuple[str, ...], toolchain: Toolchain, prepared: Prepared) -> Iterator[str]:
    """The command line with no path of this machine in it."""
    for word in argv:
        if word == str(toolchain.program):
            yield toolchain.program.name
        elif word.startswith(f"{toolchain.root}{os.sep}"):
            yield f"toolchain{word.removeprefix(str(toolchain.root))}"
        elif word == str(prepared.path):
            yield f"input:{prepared.digest[:12]}"
        elif word.endswith("/out"):
            yield "out"
        else:
            yield word


def _sweep(scratch: Path) -> None:
    """Remove what processes that were killed left behind."""
    for place in scratch.iterdir():
        owner = place.name.partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(place, ignore_errors=True)
