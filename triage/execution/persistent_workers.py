"""Compile and run one program after another in persistent workers.

The key insight: the start of a compiler with its runtime takes seconds, a small program
milliseconds. But the answer of such a process may depend on the programs before. So
only a search that tries many programs asks it, and then repeats the results that it
keeps as tasks, in new processes.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triage.execution.task import RunTask, Task
from triage.model.content import is_regular
from triage.model.execution import Captured, Ending, Execution, Stage
from triage.model.outcome import Probe
from triage.processes.process import AnsweringProcess, StopSignal
from triage.processes.sealing import Seal
from triage.recipes.run_values import file_value


@dataclass(frozen=True)
class WorkerAnswer:
    """The answer of a persistent worker about a program."""

    task: Task
    run: RunTask
    stage: Stage
    """The stage that failed, else the run."""
    execution: Execution
    files: Sequence[Sequence[Path]] = ()
    """The results of each call."""

    def values(self, call: int = 0) -> tuple[str, ...] | None:
        """Return the results of a call; None if the program failed."""
        if not self.execution.ok:
            return None
        return tuple(map(file_value, self.files[call]))

    def probe(self) -> Probe | None:
        """Return the probe of the task, as if it was made in processes of its own; None
        if a record is missing.
        """
        compiled = ran = self.execution
        if self.stage is not Stage.COMPILE:
            compiled = replace(compiled, exit_code=0, stderr=Captured())
        if ran.ok:
            ran = self.run.compare_results(ran, self.files[0])
        return self.task.probe(compiled, ran, cached=False)


@dataclass
class PersistentWorkers:
    """The workers of a search, one for each compiler with its flags. Safe for several
    threads.
    """

    folder: Path
    """The folder in which the workers run."""
    stop: StopSignal
    _processes: dict[tuple[str, ...], AnsweringProcess] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, task: Task, folder: Path, patterns: Sequence[int] = (0,)
    ) -> WorkerAnswer | None:
        """Compile a program and call it once for each pattern, a byte that fills new
        memory. The results go to files in `folder`.

        Returns None if the family has no persistent worker, or if the worker gives no
        answer within the limits of the task; the next request starts a new one. Raises
        Interrupted when the stop signal is set.
        """
        run = task.run
        if not isinstance(run, RunTask) or run.libraries or run.spec.parameters:
            return None
        argv = run.runner.persistent_worker(task.toolchain, run.tool, task.invocation)
        if not argv:
            return None
        for number in range(len(patterns)):
            (folder / str(number)).mkdir(parents=True)
        inputs = []
        for index, text in enumerate(run.spec.inputs):
            type_, at, file = text.rpartition("@")
            if at:
                copied = folder / f"input-{index}{Path(file).suffix}"
                text = f"{type_}@{shutil.copyfile(file, copied)}"
            inputs.append(text)
        request = {
            "program": shutil.copyfile(task.prepared.path, folder / "program"),
            "function": run.spec.function,
            "inputs": inputs,
            "folder": folder,
            "patterns": list(patterns),
        }
        limit = task.case.limits.timeout + run.spec.limits.timeout * len(patterns)
        process = self._process(tuple(argv), task)
        answer = process.ask(json.dumps(request, default=str).encode(), limit)
        try:
            return _parse_answer(task, run, json.loads(answer or b""), folder)
        except (ValueError, LookupError, TypeError):  # not an answer of a worker
            return None

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._processes:
                self._processes.popitem()[1].close()

    def _process(self, argv: tuple[str, ...], task: Task) -> AnsweringProcess:
        with self._lock:
            if argv not in self._processes:
                self._processes[argv] = AnsweringProcess(
                    argv,
                    task.env,
                    self.stop,
                    seal=Seal(task.toolchain.reads),
                    folder=self.folder,
                    limits=task.case.limits,
                )
            return self._processes[argv]


def _parse_answer(task: Task, run: RunTask, answer: Any, folder: Path) -> WorkerAnswer:
    """Return an answer as a process wrote it. Raises ValueError, LookupError or
    TypeError for another text.
    """
    words = (str(run.tool),)
    error = answer.get("error", "")
    if error:
        failed = Execution(words, Ending.EXITED, 1, stderr=Captured(str(error)))
        return WorkerAnswer(task, run, Stage(answer["stage"]), failed)
    files = [
        run.runner.result_files(text, folder / str(number))
        for number, text in enumerate(answer["results"])
    ]
    if not all(is_regular(file) for call in files for file in call):
        raise ValueError("a result is missing")
    return WorkerAnswer(task, run, Stage.RUN, Execution(words, Ending.EXITED, 0), files)
