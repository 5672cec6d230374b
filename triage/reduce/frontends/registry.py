"""Chooses the frontend for a case's input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.reduce.draft import Frontend
from triage.reduce.frontends.mlir.frontend import MlirFrontend
from triage.reduce.frontends.python.frontend import PythonFrontend
from triage.reduce.frontends.python.source_tree import parse_program
from triage.reduce.frontends.text import TextFrontend


def frontend_for(runner: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[Frontend, tuple[str, ...]]:
    """Return the frontend for the case's input, and notes about the choice for the report."""
    if case.input.kind is InputKind.ONNX:
        from triage.reduce.frontends.onnx import OnnxFrontend  # slow to import, and rarely needed

        return OnnxFrontend(), ()
    tools = runner.prober.mlir_tools(case, toolchain)
    prepared = runner.prober.input_of(case)
    assert isinstance(prepared, Prepared)  # it was compiled
    if tools is not None:
        reader = Reader(tools, runner.stop)
        if reader.readable(prepared.path):
            return MlirFrontend(reader, *_newest_reader(runner, case, toolchain, prepared.path)), ()
        reader.close()
    suffix = prepared.path.suffix.lstrip(".")
    if suffix == "py" and parse_program(prepared.path.read_bytes()) is not None:
        return PythonFrontend(case), ()
    kind = InputKind(suffix) if suffix in (InputKind.MLIR, InputKind.BYTECODE) else InputKind.OTHER
    note = "no tool of this toolchain reads the input: it was reduced as plain text, by blocks and lines"
    return TextFrontend(kind, suffix or "txt"), (note,)


def _newest_reader(runner: ProbeRunner, case: Case, toolchain: Toolchain, path: Path) -> Iterator[Reader]:
    """The tools of the newest installed release, if they read the input: newer verifiers reject programs that older ones
    accept, and the reduced program should be valid there too.
    """
    refs = runner.registry.installed_releases(case.compiler)
    newest = runner.registry.obtain(refs[-1]) if refs else toolchain
    tools = runner.prober.mlir_tools(case, newest) if newest.identity != toolchain.identity else None
    if tools is not None:
        reader = Reader(tools, runner.stop)
        if reader.readable(path):
            yield reader
        else:
            reader.close()
