"""Use a toolchain's own tools, which know every dialect of their version: its `opt`
program and its Python modules.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.compilers.interpreters import interpreter_folders
from triage.compilers.invocation import MlirTools
from triage.model.content import is_regular
from triage.model.execution import Execution, Limits
from triage.processes.process import AnsweringProcess, run
from triage.processes.sealing import Seal
from triage.toolchains.home import temporary_folder

WORKER = Path(__file__).with_name("python_worker.py")
_ANSWER_SECONDS = 120.0  # seconds for a text; a module of 20,000 lines takes one
_LIMITS = Limits(timeout=600.0, memory=16 << 30)
_LARGE = 64  # elements; longer constants can be elided
_GENERIC = ("--mlir-print-op-generic",)


class Reader:
    """The MLIR tools of one toolchain."""

    def __init__(self, tools: MlirTools, stop: threading.Event) -> None:
        self._tools = tools
        self._stop = stop
        self.shortening = tools.shortening
        env = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(tools.python_root),
        }
        # -P: modules next to the script must not hide those of the toolchain.
        argv = [sys.executable, "-P", str(WORKER), tools.package]
        reads = (*tools.reads, *interpreter_folders(Path(sys.executable)), WORKER)
        self._folder = TemporaryDirectory(prefix="triage-")
        self._python = AnsweringProcess(
            argv,
            env,
            stop,
            seal=Seal(reads),
            folder=Path(self._folder.name),
            limits=_LIMITS,
        )

    def generic_form(self, path: Path, *, elide: bool = False) -> str | None:
        """Return the generic form of a file with locations; None if it does not parse.

        With `elide`, large constants are left out. The result does not compile until
        other values replace them.
        """
        options = [*_GENERIC, "--mlir-print-debuginfo"]
        if elide:
            options += [
                f"--mlir-elide-elementsattrs-if-larger={_LARGE}",
                "--mlir-elide-resource-strings-if-larger=64",
            ]
        return self._printed_text(options, path)

    def parse_error(self, path: Path) -> str | None:
        """Return the first error of the tools for a file, or how they ended; None if it
        parses.
        """
        with temporary_folder() as folder:
            execution = self._run(["-o", os.devnull], path, folder)
        if execution.ok:
            return None
        lines = execution.stderr.text.splitlines()
        errors = (line.strip() for line in lines if "error:" in line)
        first = execution.stderr.first_line or execution.ending_text(_LIMITS)
        return next(errors, first)

    def text_after_passes(self, text: str, options: tuple[str, ...] = ()) -> str | None:
        """Return a text in the custom syntax after the passes that `options` name; None
        if one fails.
        """
        with temporary_folder() as folder:
            source = folder / "source.mlir"
            source.write_text(text, "utf-8")
            return self._printed_text(options, source)

    def generic_if_valid(self, text: str) -> str | None:
        """Return the generic form of a module, as the toolchain prints it; None if the
        module is not valid.
        """
        if self._has_bindings:
            return self._generic_by_bindings(text)
        return self.text_after_passes(text, _GENERIC)

    @cached_property
    def _has_bindings(self) -> bool:
        return self._generic_by_bindings("module{}") is not None

    def _generic_by_bindings(self, text: str) -> str | None:
        # a text that ends the process is not valid
        answer = self._python.ask(text.encode(), _ANSWER_SECONDS) or b"-"
        if answer.startswith(b"+"):
            return answer[1:].decode("utf-8", "replace")
        return None

    def close(self) -> None:
        """End the process with the Python bindings."""
        self._python.close()
        self._folder.cleanup()

    def _printed_text(self, options: Sequence[str], source: Path) -> str | None:
        """Return what `opt` writes; None if it fails."""
        with temporary_folder() as folder:
            target = folder / "printed"
            words = [*options, "-o", str(target)]
            execution = self._run(words, source, folder)
            if execution.ok and is_regular(target):
                return target.read_text("utf-8", "replace")
            return None

    def _run(self, options: Sequence[str], source: Path, folder: Path) -> Execution:
        return run(
            [str(self._tools.optimizer), *options, str(source)],
            _LIMITS,
            folder,
            seal=Seal((*self._tools.reads, source)),
            env={"LLVM_DISABLE_SYMBOLIZATION": "1"},
            stop=self._stop,
        )
