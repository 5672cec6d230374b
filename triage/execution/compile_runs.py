"""Run compiles, and repeat them where one run does not prove how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from triage.classify import NO_PASS, FailingPass, PassScanner
from triage.execution.cache import Record
from triage.execution.compile_task import CompileTask
from triage.execution.crash_stack import with_named_stack
from triage.execution.judge import DISPATCHES, judge, needs_pass, rules_of
from triage.execution.process import StopSignal, run
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.execution import Ending, Execution
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Untestable

# Endings that one run does not prove.
_REPEATED = (Ending.SIGNALLED, Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT)


class CompileRuns:
    """Runs compiles. Safe for several threads."""

    def __init__(self, scratch: Scratch, stop: threading.Event, warn: Callable[[str], None]) -> None:
        """warn: receives what the user must know about a compiler's own output."""
        self._scratch = scratch
        self._stop = stop
        self._warn = warn
        self._warned: set[tuple[str, ...]] = set()

    def until_sure(self, task: CompileTask, on_output: Callable[[Path], None] | None) -> Record:
        """Compile, and repeat it when one run does not prove how it ended: the majority of up to three runs counts."""
        runs = [self.run(task, on_output=on_output)]
        if runs[0].ending in _REPEATED:
            runs.append(self.run(task, on_output=on_output))
            if result_of(runs[0], task.case) != result_of(runs[1], task.case):
                runs.append(self.run(task, on_output=on_output))
        results = [result_of(execution, task.case) for execution in runs]
        chosen = max(runs, key=lambda execution: results.count(result_of(execution, task.case)))
        agreeing = results.count(result_of(chosen, task.case))
        failing_pass = None
        if chosen.ending is Ending.SIGNALLED:
            chosen = self._steady_crash(task, [run for run in runs if run.signal == chosen.signal])
        elif needs_pass(chosen, rules_of(task.case)):
            failing_pass = self._failing_pass(task)
        record = task.record(task.key(), chosen, failing_pass)
        return replace(record, runs=agreeing, disagreements=len(runs) - agreeing)

    def run(
        self,
        task: CompileTask,
        stop: StopSignal | None = None,
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: Callable[[Path], None] | None = None,
    ) -> Execution:
        """Run a task once in a folder of its own.

        stop: ends it early, instead of the signal that ends all; on_stderr: receives standard error as it arrives; on_output:
        receives the path of what a successful run wrote, before it is removed.
        """
        with self._scratch.folder() as folder:
            output, counted = folder / "out", folder / "statistics.json"
            runner = task.compiler.runner() if task.counts else None
            argv = [*task.argv(output), *(runner.counting(counted) if runner else ())]
            execution = run(argv, task.case.limits, folder, env=task.env, stop=stop or self._stop, on_stderr=on_stderr)
            execution = with_named_stack(execution)
            size = output.stat().st_size if execution.ok and output.is_file() else None
            count = runner.dispatches(counted.read_text("utf-8", "replace")) if runner and counted.is_file() else None
            if on_output and size is not None:
                on_output(output)
        facts = task.compiler.run_facts(execution)
        dispatches = {} if count is None else {DISPATCHES: float(count)}
        if facts.ignored and facts.ignored not in self._warned:
            self._warned.add(facts.ignored)
            names = ", ".join(map(repr, facts.ignored))
            self._warn(
                f"{task.case.name} on {task.toolchain.revision.name}: metrics that are no finite numbers: {names}; ignored"
            )
        return replace(execution, output_bytes=size, phase=facts.phase, metrics={**facts.metrics, **dispatches})

    def _steady_crash(self, task: CompileTask, runs: Sequence[Execution]) -> Execution:
        """Return the crash that identifies the failure. Threads that crash at different places print different stacks; then
        the stack of one more run, on one thread, counts.
        """
        single = task.on_one_thread()
        if single != task and len({state_of(judge(run, rules_of(task.case))) for run in runs}) > 1:
            again = self.run(single)
            if again.signal == runs[0].signal:
                return again
        return runs[0]

    def _failing_pass(self, task: CompileTask) -> FailingPass | None:
        """Run a task again to print the failing pass."""
        reporting = task.with_pass_reporting()
        if reporting == task:  # the family has no passes, or the first run printed all there is
            return None
        scanner = PassScanner()
        self.run(reporting, on_stderr=scanner.feed)
        return scanner.finish() or NO_PASS


def result_of(execution: Execution, case: Case) -> tuple[str, str]:
    """Return what two runs must have in common to agree.

    Of a crash this is the signal alone: with several threads the stack differs from run to run.
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


def state_of(outcome: Outcome) -> str:
    """Return what is the same for outcomes that do not contradict each other."""
    return outcome.failure.signature if isinstance(outcome, Failed) else ""
