"""A task: one compile of a case on a toolchain, and the run of what it writes, as data with a content key.

Everything that this program compiles is a task: a probe, a trial of a reduction, a reference, a library, resource metrics.
They differ in their key only, so that one cache and one way to make them are enough.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from triage.classify import FailingPass
from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.execution.cache import Record
from triage.execution.environment import settings
from triage.execution.files import Prepared
from triage.execution.judge import DISPATCHES, judge, judge_run, judge_thresholds, rules_of
from triage.execution.run_task import RunTask, limits_key
from triage.model.case import Case, RunSpec
from triage.model.execution import Execution, Stage
from triage.model.outcome import Compiled, Failed, Measured, Outcome, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe to make."""

    case: Case
    ref: ToolchainRef
    fresh: bool = False
    """Ignore the result cache."""
    resources: bool = False
    """Compile a case that compiles once more, to read resource metrics from its IR."""
    here: bool = False
    """Do not use a cluster, because times are compared."""


class Naming(StrEnum):
    """Whether a trial finds out which pass failed."""

    NEVER = "never"
    AT_ONCE = "at once"
    """The compile itself prints its passes, on one thread, so that a crash has the same stack each time."""


@dataclass(frozen=True, slots=True)
class Task:
    """A compile that can be made: the input is prepared and the version knows every flag."""

    case: Case
    toolchain: Toolchain
    compiler: Compiler
    prepared: Prepared
    invocation: Invocation
    run: RunTask | Untestable | Failed | None = None
    """What follows the compile, or why nothing can."""
    variant: str = ""
    """Part of the key of another way to make the same compile, such as a trial."""
    naming: Naming | None = None
    """Set for a single compile; else it is repeated until its ending is sure."""

    @property
    def counts_dispatches(self) -> bool:
        return any(name == DISPATCHES for name, _ in self.case.thresholds)

    @property
    def key(self) -> str:
        """The content key of the compile: compiler, input, options without paths, limits."""
        parts = [
            *(self.toolchain.identity, self.prepared.digest),
            *self.invocation.options,
            *([self.variant] if self.variant else []),
            *(f"env {setting}" for setting in settings(dict(self.case.env))),
            *([DISPATCHES] if self.counts_dispatches else []),
            *limits_key(self.case.limits),
        ]
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def run_key(self) -> str | None:
        """The content key of the run that follows."""
        if not isinstance(self.run, RunTask):
            return None
        return sha256(f"run\0{self.key}\0{self.run.identity}".encode()).hexdigest()

    @property
    def env(self) -> dict[str, str | None]:
        """The variables of the family and of the recipe, which take precedence."""
        return {**self.invocation.env, **dict(self.case.env)}

    def argv(self, output: Path) -> list[str]:
        return self.invocation.argv(self.toolchain.program, self.prepared.path, output)

    def run_command(self, values: RunSpec, module: str) -> tuple[str, ...]:
        """Return the command that runs what the case compiles to, with other values; empty when it is not run."""
        if not isinstance(self.run, RunTask):
            return ()
        run, program = self.run, Path(self.run.program.name)
        argv = run.runner.argv(
            program, Path(module), run.options, libraries=run.libraries, inputs=values.inputs, expected=values.expected
        )
        return tuple(argv)

    def with_pass_reporting(self) -> Task:
        """Return the same task, printing which pass failed."""
        ir = self.compiler.ir
        return replace(self, invocation=ir.naming_pass(self.invocation)) if ir else self

    def on_one_thread(self) -> Task:
        """Return the same task, compiling on one thread."""
        ir = self.compiler.ir
        return replace(self, invocation=ir.on_one_thread(self.invocation)) if ir else self

    def record(self, key: str, execution: Execution, failing_pass: FailingPass | None = None, disagreements: int = 0) -> Record:
        """Return the facts of an execution, for the cache, without paths of this machine."""
        program, root = self.toolchain.program, f"{self.toolchain.root}{os.sep}"
        names = {str(program): program.name, str(self.prepared.path): f"input:{self.prepared.digest[:12]}"}
        words = (names.get(word) or re.sub(r"^.*/out$", "out", word) for word in execution.argv)
        portable = replace(execution, argv=tuple(word.replace(root, "toolchain/") for word in words))
        return Record(key, self.case.name, self.toolchain.revision.name, portable, failing_pass, disagreements)

    def probe(self, compiled: Record | None, ran: Record | None = None, *, cached: bool) -> Probe | None:
        """Judge the records of the compile and the run, if they are all there."""
        if compiled is None:
            return None
        execution, metrics, foreign, rules = compiled.execution, compiled.metrics, bool(compiled.origin), rules_of(self.case)
        outcome: Outcome = judge(execution, rules, compiled.failing_pass, flaky=compiled.disagreements > 0)
        if isinstance(outcome, Compiled):
            outcome = judge_thresholds(self.case, metrics, Stage.COMPILE) or outcome
        if isinstance(outcome, Compiled) and isinstance(self.run, Untestable | Failed):
            outcome = self.run
        elif isinstance(outcome, Compiled) and isinstance(self.run, RunTask):
            if ran is None:
                return None
            outcome = judge_run(ran.execution, rules, self.run.runner, ran.metrics, flaky=ran.disagreements > 0)
            if isinstance(outcome, Compiled):
                outcome = judge_thresholds(self.case, ran.metrics, Stage.BENCHMARK) or outcome
            metrics, foreign = {**metrics, **ran.metrics}, foreign or bool(ran.origin)
        measured = Measured(execution.seconds, execution.cpu_seconds, execution.peak_rss_mb, metrics)
        revision, version = self.toolchain.revision, self.toolchain.version
        return Probe(self.case, revision, version, outcome, measured, cached, foreign)


def unmade(case: Case, toolchain: Toolchain, outcome: Untestable | Failed, *, cached: bool = False) -> Probe:
    """Return the probe of a case that is not compiled."""
    return Probe(case, toolchain.revision, toolchain.version, outcome, Measured(), cached)
