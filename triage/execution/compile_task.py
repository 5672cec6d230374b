"""A compile that can be made, its content address, and how its record is judged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from triage.classify import FailingPass
from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.execution.cache import Record, key_of
from triage.execution.environment import settings
from triage.execution.inputs import Prepared
from triage.execution.judge import DISPATCHES, judge, judge_goldens, judge_run, rules_of
from triage.execution.run_stage import RunTask
from triage.model.case import Case
from triage.model.execution import Execution, Limits, Stage
from triage.model.outcome import Compiled, Failed, Measured, Probe, Untestable
from triage.model.revision import Toolchain


@dataclass(frozen=True, slots=True)
class CompileTask:
    """A compile that can be made: the input is prepared and the version knows every flag. run: what follows it, None when
    the case is compiled only.
    """

    case: Case
    toolchain: Toolchain
    compiler: Compiler
    prepared: Prepared
    invocation: Invocation
    run: RunTask | Untestable | Failed | None = None

    @property
    def counts(self) -> bool:
        """Whether the compile counts dispatches."""
        return any(name == DISPATCHES for name, _ in self.case.goldens)

    def key(self, *marks: str) -> str:
        """Return the content address in the evidence. `marks` distinguish other ways to run the same task."""
        limits = (self.case.limits.timeout, self.case.limits.memory)
        # Nothing is added for the defaults, so that results from before these keys existed are still found.
        output = [] if self.case.limits.output == Limits().output else [f"output {self.case.limits.output}"]
        clock = [] if self.case.limits.without_waiting else ["wall time"]
        variables = [f"env {setting}" for setting in settings(dict(self.case.env))]
        counted = [DISPATCHES] if self.counts else []
        options = (*self.invocation.options, *marks, *output, *clock, *variables, *counted)
        return key_of(self.toolchain.identity, self.prepared.digest, options, limits)

    @property
    def env(self) -> dict[str, str | None]:
        """The variables of the family and of the recipe, which take precedence."""
        return {**self.invocation.env, **dict(self.case.env)}

    def with_pass_reporting(self) -> CompileTask:
        """Return the same task, printing which pass failed."""
        return replace(self, invocation=self.compiler.with_pass_reporting(self.invocation))

    def on_one_thread(self) -> CompileTask:
        """Return the same task, compiling on one thread."""
        return replace(self, invocation=self.compiler.on_one_thread(self.invocation))

    def argv(self, output: Path) -> list[str]:
        return self.invocation.argv(self.toolchain.program, self.prepared.path, output)

    def record(self, key: str, execution: Execution, failing_pass: FailingPass | None) -> Record:
        """Return the facts of a run, for the evidence."""
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
        """Judge a record."""
        execution = record.execution
        outcome = judge(execution, rules_of(self.case), record.failing_pass, flaky=record.disagreements > 0)
        if isinstance(outcome, Compiled):
            outcome = judge_goldens(self.case, record.metrics, Stage.COMPILE) or outcome
        return Probe(
            case=self.case,
            revision=self.toolchain.revision,
            version=self.toolchain.version,
            outcome=outcome,
            measured=Measured(execution.seconds, execution.cpu_seconds, execution.peak_rss_mb, record.metrics),
            cached=cached,
            foreign=bool(record.origin),
        )

    def ran(self, record: Record, compiled: Probe, *, cached: bool) -> Probe:
        """Judge the record of the run that followed a compile."""
        assert isinstance(self.run, RunTask)
        outcome = judge_run(
            record.execution, rules_of(self.case), self.run.runner, record.metrics, flaky=record.disagreements > 0
        )
        if isinstance(outcome, Compiled):
            outcome = judge_goldens(self.case, record.metrics, Stage.BENCHMARK) or outcome
        metrics = {**compiled.measured.metrics, **record.metrics}
        measured, foreign = replace(compiled.measured, metrics=metrics), compiled.foreign or bool(record.origin)
        return replace(compiled, outcome=outcome, measured=measured, cached=cached, foreign=foreign)

    def _portable(self, argv: tuple[str, ...]) -> Iterator[str]:
        """Yield the command line without paths of this machine."""
        root = self.toolchain.root
        for word in argv:
            if word == str(self.toolchain.program):
                yield self.toolchain.program.name
            elif word.startswith(f"{root}{os.sep}"):
                yield f"toolchain{word.removeprefix(str(root))}"
            elif word == str(self.prepared.path):
                yield f"input:{self.prepared.digest[:12]}"
            elif word.endswith("/out"):
                yield "out"
            else:
                yield word
