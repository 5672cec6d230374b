"""Probe one case on one toolchain: recall, run, doubt, name the pass, record."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from triage.classify import FailingPass, PassScanner
from triage.compilers.base import Compiler, MlirTools, Runner
from triage.compilers.invocation import Invocation
from triage.compilers.ir import Ir
from triage.compilers.placement import Placement
from triage.execution.cache import Evidence, Record, key_of
from triage.execution.inputs import Inputs, Prepared
from triage.execution.judge import judge, needs_pass, rules_of
from triage.execution.process import StopSignal, run
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Compiled, Failed, Failure, Measured, Outcome, Probe, Untestable
from triage.model.revision import Toolchain

_FOOTPRINT = "footprint 1"  # counted up when the IR is read in another way
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
        self._scratch = Scratch(home / "scratch")

    def probe(self, case: Case, toolchain: Toolchain, *, fresh: bool = False) -> Probe:
        """The outcome of a case on a toolchain, from the evidence where it is known, unless `fresh`.

        Raises process.Interrupted when the stop switch is thrown; then nothing is recorded.
        """
        errand = self._errand(case, toolchain)
        if isinstance(errand, Untestable):
            return _untested(case, toolchain, errand)
        if not fresh and (known := self._evidence.find(errand.key())):
            return errand.probe(known, cached=True)
        return self._recorded(errand, self._doubted(errand))

    def recall(self, case: Case, toolchain: Toolchain) -> Probe | None:
        """What is known of a case on a toolchain; None where that is nothing. Compiles nothing."""
        errand = self._errand(case, toolchain)
        if isinstance(errand, Untestable):
            return _untested(case, toolchain, errand)
        known = self._evidence.find(errand.key())
        return errand.probe(known, cached=True) if known else None

    def trial(
        self, case: Case, toolchain: Toolchain, naming: Naming, *, attempt: int = 0, cancelled: StopSignal | None = None
    ) -> Probe:
        """One run, believed at once and kept apart from probes in the evidence: for a search that tries many programs
        and probes in full the one it ends with.

        attempt: which repetition it is, each is known by itself; cancelled: ends the run before its time, with Interrupted.
        """
        errand = self._errand(case, toolchain)
        if isinstance(errand, Untestable):
            return _untested(case, toolchain, errand)
        key = errand.key(f"trial {attempt} {naming}")
        if known := self._evidence.find(key):
            return errand.probe(known, cached=True)
        stop = _Either(self._stop, cancelled)
        if naming is Naming.NEVER:
            return self._recorded(errand, errand.record(key, self._execute(errand, stop=stop), None))
        scanner = PassScanner()
        execution = self._execute(errand.with_pass_reporting(crashed=False), scanner, stop)
        failing_pass = scanner.finish()
        if execution.ending is Ending.SIGNALLED and needs_pass(execution, rules_of(case)) and not _has_frames(execution, case):
            failing_pass = self._name_pass(errand, crashed=True, stop=stop)
        return self._recorded(errand, errand.record(key, execution, failing_pass))

    def footprint(self, case: Case, toolchain: Toolchain) -> Mapping[str, float]:
        """What a case that compiles asks of the machine it is for, from one more compile whose IR is read; kept in the
        evidence. Empty where the family's IR does not tell, or that compile does not end well.
        """
        errand, ir = self._errand(case, toolchain), self._compilers[case.compiler].ir()
        phase = ir.footprint_phase(toolchain, case.phase) if ir else None
        if isinstance(errand, Untestable) or ir is None or phase is None:
            return {}
        key = errand.key(_FOOTPRINT)
        if known := self._evidence.find(key):
            return {name: known.metrics[name] for name in known.metrics if name != "artifact_bytes"}
        printing = replace(errand, invocation=ir.up_to(errand.invocation, phase))
        with self._scratch.place() as place:
            output, env = place / "out", printing.invocation.env
            execution = run(printing.argv(output), case.limits, place, env=env, stop=self._stop)
            told = ir.footprint(output, case.target.backend) if execution.ok and output.is_file() else {}
        if told:
            self._evidence.add(errand.record(key, replace(execution, metrics=told), None))
        return told

    def recorded(self, case: Case, toolchain: Toolchain) -> tuple[Invocation, Execution] | None:
        """The invocation of a case that was probed and what came of it; None where nothing is on record."""
        errand = self._errand(case, toolchain)
        known = None if isinstance(errand, Untestable) else self._evidence.find(errand.key())
        return None if known is None or isinstance(errand, Untestable) else (errand.invocation, known.execution)

    def input_of(self, case: Case) -> Prepared | Untestable:
        """The file that the compiler is given for a case, or why there is none."""
        return self._inputs.prepare(case)

    def mlir_tools(self, case: Case, toolchain: Toolchain) -> MlirTools | None:
        """What a toolchain has for reading MLIR."""
        return self._compilers[case.compiler].mlir_tools(toolchain)

    def ir_of(self, family: str) -> Ir | None:
        """How a family's IR is printed; None where it cannot be."""
        return self._compilers[family].ir()

    def command_line(self, case: Case, toolchain: Toolchain) -> str:
        """What `probe` would run, as a line for a shell; a comment with the reason where it would run nothing."""
        errand = self._errand(case, toolchain)
        if isinstance(errand, Untestable):
            return f"# {case.name} on {toolchain.revision.name}: {errand.reason}"
        return errand.command_line()

    def placement_of(self, family: str) -> Placement | None:
        """How a family names devices; None where it cannot."""
        return self._compilers[family].placement()

    def runner_of(self, family: str) -> Runner | None:
        """How a family's programs are run on this machine; None where they cannot be."""
        return self._compilers[family].runner()

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        """What a case's options are on a toolchain."""
        return self._compilers[case.compiler].invocation(case, toolchain)

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
        errand = self._errand(case, toolchain)
        if isinstance(errand, Untestable):
            return errand
        altered = replace(errand, invocation=alter(errand.invocation))
        with self._scratch.place() as place:
            argv = altered.argv(output := place / "out")
            execution = run(argv, case.limits, place, env=altered.invocation.env, stop=self._stop, on_stderr=on_stderr)
            if on_output and execution.ok and output.is_file():
                on_output(output)
        return execution

    def _errand(self, case: Case, toolchain: Toolchain) -> CompileTask | Untestable:
        prepared = self._inputs.prepare(case)
        if isinstance(prepared, Untestable):
            return prepared
        compiler = self._compilers[case.compiler]
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return invocation
        return CompileTask(case, toolchain, compiler, prepared, invocation)

    def _recorded(self, errand: CompileTask, record: Record) -> Probe:
        """What a new record means; it is kept unless the machine was to blame."""
        probe = errand.probe(record, cached=False)
        if not _is_passing_trouble(probe.outcome):
            self._evidence.add(record)
        return probe

    def _doubted(self, errand: CompileTask) -> Record:
        """Run, and run again what is not believed once."""
        runs = [self._execute(errand)]
        if runs[0].ending in _NOT_BELIEVED_ONCE:
            runs.append(self._execute(errand))
            if _face(runs[0], errand.case) != _face(runs[1], errand.case):
                runs.append(self._execute(errand))
        faces = [_face(execution, errand.case) for execution in runs]
        chosen = max(runs, key=lambda execution: faces.count(_face(execution, errand.case)))
        agreeing = faces.count(_face(chosen, errand.case))
        failing_pass = None
        if needs_pass(chosen, rules_of(errand.case)):
            failing_pass = self._name_pass(errand, crashed=chosen.ending is Ending.SIGNALLED)
        record = errand.record(errand.key(), chosen, failing_pass)
        return replace(record, runs=agreeing, disagreements=len(runs) - agreeing)

    def _execute(self, errand: CompileTask, scanner: PassScanner | None = None, stop: StopSignal | None = None) -> Execution:
        """One run in a folder of its own. `scanner` reads all of standard error as it comes, IR of any length included."""
        with self._scratch.place() as place:
            output = place / "out"
            feed, env = scanner.feed if scanner else None, errand.invocation.env
            stop = stop or self._stop
            execution = run(errand.argv(output), errand.case.limits, place, env=env, stop=stop, on_stderr=feed)
            size = output.stat().st_size if execution.ok and output.is_file() else None
            told = errand.compiler.run_facts(execution)
            return replace(execution, output_bytes=size, phase=told.phase, metrics=told.metrics)

    def _name_pass(self, errand: CompileTask, *, crashed: bool, stop: StopSignal | None = None) -> FailingPass | None:
        """The failing pass, from a second run that prints it."""
        named = errand.with_pass_reporting(crashed=crashed)
        if named == errand:  # a family without passes, or whose first run has told all there is
            return None
        scanner = PassScanner()
        self._execute(named, scanner, stop)
        return scanner.finish()


@dataclass(frozen=True, slots=True)
class _Either:
    """Two switches as one."""

    first: StopSignal
    second: StopSignal | None

    def is_set(self) -> bool:
        return self.first.is_set() or (self.second is not None and self.second.is_set())


def _face(execution: Execution, case: Case) -> tuple[str, str]:
    """What two runs must have in common to agree. Of a crash that is the signal: with several threads the stack is
    another each time.
    """
    if execution.ending is Ending.SIGNALLED:
        return "signalled", str(execution.signal)
    match judge(execution, rules_of(case)):
        case Compiled():
            return "compiled", ""
        case Failed(failure=Failure(signature=signature)):
            return "failed", signature
        case Untestable(cause=cause):
            return "untestable", cause


def _has_frames(execution: Execution, case: Case) -> bool:
    outcome = judge(execution, rules_of(case))
    return isinstance(outcome, Failed) and "frames" in outcome.failure.details


def _is_passing_trouble(outcome: Outcome) -> bool:
    return isinstance(outcome, Untestable) and outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN)


def _untested(case: Case, toolchain: Toolchain, why: Untestable) -> Probe:
    return Probe(case, toolchain.revision, toolchain.version, why, Measured(), cached=False)


@dataclass(frozen=True, slots=True)
class CompileTask:
    """What will be run: nothing stands in its way, the input is made and the version knows every flag."""

    case: Case
    toolchain: Toolchain
    compiler: Compiler
    prepared: Prepared
    invocation: Invocation

    def key(self, *marks: str) -> str:
        """The content address in the evidence; `marks` set it apart from what is run otherwise."""
        limits = (self.case.limits.timeout, self.case.limits.memory)
        return key_of(self.toolchain.identity, self.prepared.digest, (*self.invocation.options, *marks), limits)

    def with_pass_reporting(self, *, crashed: bool) -> CompileTask:
        """The same, printing which pass failed."""
        return replace(self, invocation=self.compiler.with_pass_reporting(self.invocation, crashed=crashed))

    def argv(self, output: Path) -> list[str]:
        """The command line."""
        return self.invocation.argv(self.toolchain.program, self.prepared.path, output)

    def command_line(self) -> str:
        """The command as a line for a shell."""
        settings = [f"{name}={value}" for name, value in self.invocation.env.items()]
        return shlex.join([*settings, *self.argv(Path(os.devnull))])

    def record(self, key: str, execution: Execution, failing_pass: FailingPass | None) -> Record:
        """The facts of a run, for the evidence."""
        size = {} if execution.output_bytes is None else {"artifact_bytes": execution.output_bytes}
        return Record(
            key=key,
            case_name=self.case.name,
            toolchain=self.toolchain.revision.name,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            execution=replace(execution, argv=tuple(self._portable(execution.argv))),
            failing_pass=failing_pass,
            metrics={**execution.metrics, **size},
        )

    def probe(self, record: Record, *, cached: bool) -> Probe:
        """What a record means."""
        execution = record.execution
        return Probe(
            case=self.case,
            revision=self.toolchain.revision,
            version=self.toolchain.version,
            outcome=judge(execution, rules_of(self.case), record.failing_pass, flaky=record.disagreements > 0),
            measured=Measured(execution.seconds, execution.cpu_seconds, execution.peak_rss_mb, record.metrics),
            cached=cached,
        )

    def _portable(self, argv: tuple[str, ...]) -> Iterator[str]:
        """The command line with no path of this machine in it."""
        root, source = self.toolchain.root, self.prepared
        for word in argv:
            if word == str(self.toolchain.program):
                yield self.toolchain.program.name
            elif word.startswith(f"{root}{os.sep}"):
                yield f"toolchain{word.removeprefix(str(root))}"
            elif word == str(source.path):
                yield f"input:{source.digest[:12]}"
            elif word.endswith("/out"):
                yield "out"
            else:
                yield word
