"""MLIR read, checked and printed by a toolchain's own tools, so that no dialect of its version is unknown."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.compilers.base import MlirTools
from triage.execution.process import Worker, run
from triage.model.execution import Execution, Limits

_PATIENCE = 120.0  # seconds for a text; a module of 20,000 lines takes one
_LIMITS = Limits(timeout=600.0, memory=16 << 30)
_LARGE = 64  # elements; longer constants are elided where that is asked for
_GENERIC = ("--mlir-print-op-generic",)


class Reader:
    """The tools of one toolchain. `valid` asks a worker with its Python bindings and, where they do not run, its
    `opt` tool for each text.
    """

    def __init__(self, tools: MlirTools, stop: threading.Event) -> None:
        self._tools, self._stop = tools, stop
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self.bindings = True  # until they fail

    def generic(self, path: Path, *, elide: bool = False) -> str | None:
        """The generic form of a file, with locations; None when it does not parse. elide: without large constants, which
        no compiler reads before something is put in their place.
        """
        options = [*_GENERIC, "--mlir-print-debuginfo"]
        if elide:
            options += [f"--mlir-elide-elementsattrs-if-larger={_LARGE}", "--mlir-elide-resource-strings-if-larger=64"]
        return self._printed([*options, str(path)])

    def complaint(self, path: Path) -> str:
        """What the toolchain's tools say of a file that does not parse: their first error, or how they ended."""
        with TemporaryDirectory() as place:
            execution = self._run([str(self._tools.optimizer), str(path), "-o", os.devnull], Path(place))
        lines = [line.strip() for line in execution.stderr.text.splitlines() if line.strip()]
        found = next((line for line in lines if "error:" in line), lines[0] if lines else "")
        return found or f"the tools ended with {execution.ending}, and said nothing"

    def readable(self, path: Path) -> bool:
        """Whether the toolchain's tools parse a file."""
        with TemporaryDirectory() as place:
            return self._run([str(self._tools.optimizer), str(path), "-o", os.devnull], Path(place)).ok

    def pretty(self, text: str) -> str | None:
        """The text in the syntax people write; None when it does not parse."""
        return self.transformed(text, ())

    def transformed(self, text: str, options: tuple[str, ...]) -> str | None:
        """The text after the passes that `options` name, in the syntax that they name; None when that fails."""
        with TemporaryDirectory() as place:
            source = Path(place, "source.mlir")
            source.write_text(text, "utf-8")
            return self._printed([*options, str(source)])

    def valid(self, text: str) -> str | None:
        """The generic form of a valid module, printed by the toolchain; None when it does not parse or verify."""
        if self.bindings:
            with self._lock:
                answer = self._ask(text)
            if answer is not None:
                return answer[1:] if answer.startswith("+") else None
        return self.transformed(text, _GENERIC)

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._end()

    def _printed(self, arguments: list[str]) -> str | None:
        with TemporaryDirectory() as place:
            target = Path(place, "printed")
            execution = self._run([str(self._tools.optimizer), *arguments, "-o", str(target)], Path(place))
            return target.read_text("utf-8", "replace") if execution.ok else None

    def _run(self, argv: list[str], place: Path) -> Execution:
        return run(argv, _LIMITS, place, env={"LLVM_DISABLE_SYMBOLIZATION": "1"}, stop=self._stop)

    def _ask(self, text: str) -> str | None:
        """Return the worker's answer; None when the worker does not work at all. A text that kills it is not valid."""
        fresh = self._worker is None
        try:
            self._worker = self._worker or self._start()
            answer = self._worker.ask(text.encode(), _PATIENCE)
        except OSError:
            answer = None
        if answer is not None:
            return answer.decode("utf-8", "replace")
        self._end()
        if fresh and not self._bindings_work():
            self.bindings = False
            return None
        return "-"

    def _bindings_work(self) -> bool:
        try:
            with self._start() as worker:
                return (worker.ask(b"module{}", _PATIENCE) or b"").startswith(b"+")
        except OSError:
            return False

    def _start(self) -> Worker:
        script = Path(__file__).with_name("mlir_worker.py")
        env = {"PYTHONPATH": str(self._tools.python_root), "PYTHONDONTWRITEBYTECODE": "1"}
        return Worker([sys.executable, str(script), self._tools.package], env)

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
