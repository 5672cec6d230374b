"""Read, check and print MLIR with a toolchain's own tools, which know every dialect of their version."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from triage.compilers.invocation import MlirTools
from triage.execution.process import Worker, run
from triage.model.execution import Execution, Limits
from triage.toolchains.home import temporary_folder

_PATIENCE = 120.0  # seconds for a text; a module of 20,000 lines takes one
_LIMITS = Limits(timeout=600.0, memory=16 << 30)
_LARGE = 64  # elements; longer constants can be elided
_GENERIC = ("--mlir-print-op-generic",)


class Reader:
    """The MLIR tools of one toolchain: a worker with its Python bindings, and its `opt` program."""

    def __init__(self, tools: MlirTools, stop: threading.Event) -> None:
        self._tools, self._stop = tools, stop
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self.bindings = True  # until they fail

    def generic(self, path: Path, *, elide: bool = False) -> str | None:
        """Return the generic form of a file with locations; None when it does not parse.

        elide: leave out large constants. The result does not compile until other values replace them.
        """
        options = [*_GENERIC, "--mlir-print-debuginfo"]
        if elide:
            options += [f"--mlir-elide-elementsattrs-if-larger={_LARGE}", "--mlir-elide-resource-strings-if-larger=64"]
        return self._printed([*options, str(path)])

    def parse_error(self, path: Path) -> str:
        """Return the first error of the tools for a file that does not parse, or how they ended."""
        execution = self._parsed(path)
        lines = [line.strip() for line in execution.stderr.text.splitlines() if line.strip()]
        first = next((line for line in lines if "error:" in line), lines[0] if lines else "")
        return first or f"the tools ended with {execution.ending} and printed nothing"

    def readable(self, path: Path) -> bool:
        """Return whether the toolchain parses a file."""
        return self._parsed(path).ok

    def pretty(self, text: str) -> str | None:
        """Return the text in the custom syntax; None when it does not parse."""
        return self.transformed(text, ())

    def transformed(self, text: str, options: tuple[str, ...]) -> str | None:
        """Return the text after the passes that `options` name; None when one fails."""
        with temporary_folder() as folder:
            source = Path(folder, "source.mlir")
            source.write_text(text, "utf-8")
            return self._printed([*options, str(source)])

    def valid(self, text: str) -> str | None:
        """Return the generic form of a module, as the toolchain prints it; None when it does not parse or verify."""
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

    def _parsed(self, path: Path) -> Execution:
        with temporary_folder() as folder:
            return self._run([str(path), "-o", os.devnull], Path(folder))

    def _printed(self, arguments: list[str]) -> str | None:
        with temporary_folder() as folder:
            target = Path(folder, "printed")
            execution = self._run([*arguments, "-o", str(target)], Path(folder))
            return target.read_text("utf-8", "replace") if execution.ok else None

    def _run(self, arguments: list[str], folder: Path) -> Execution:
        argv = [str(self._tools.optimizer), *arguments]
        return run(argv, _LIMITS, folder, env={"LLVM_DISABLE_SYMBOLIZATION": "1"}, stop=self._stop)

    def _ask(self, text: str) -> str | None:
        """Return the worker's answer; None when the bindings do not work at all. A text that kills the worker is not valid."""
        try:
            if self._worker is None:
                script = Path(__file__).with_name("python_worker.py")
                env = {"PYTHONPATH": str(self._tools.python_root), "PYTHONDONTWRITEBYTECODE": "1"}
                self._worker = Worker([sys.executable, "-P", str(script), "check", self._tools.package], env)
                works = self._worker.ask(b"module{}", _PATIENCE, self._stop)
                self.bindings = works is not None and works.startswith(b"+")
            answer = self._worker.ask(text.encode(), _PATIENCE, self._stop) if self.bindings else None
        except OSError:
            answer, self.bindings = None, False
        if answer is None:
            self._end()
            return "-" if self.bindings else None
        return answer.decode("utf-8", "replace")

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
