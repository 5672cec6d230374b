"""A case made ready for one toolchain, and what comes of running it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from triage.classify import FailingPass
from triage.compilers.port import Compiler, Invocation
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.outcome import Measured
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.evidence import Record, key_of
from triage.probe.inputs import Prepared
from triage.probe.judge import judge, rules_of


@dataclass(frozen=True, slots=True)
class Errand:
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

    def naming_the_pass(self, *, crashed: bool) -> Errand:
        """The same, printing which pass failed."""
        return replace(self, invocation=self.compiler.naming_the_pass(self.invocation, crashed=crashed))

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
        execution, rules = record.execution, rules_of(self.case)
        return Probe(
            case=self.case,
            revision=self.toolchain.revision,
            version=self.toolchain.version,
            outcome=judge(execution, record.failing_pass, flaky=record.disagreements > 0, rules=rules),
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
