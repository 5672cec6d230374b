"""Which format a case's input is worked on in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.reduce.frontends.base import Frontend
from triage.reduce.frontends.mlir.format import MlirFormat
from triage.reduce.frontends.python.format import PythonFormat, parsed
from triage.reduce.frontends.text.format import TextFormat


def format_of(bench: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[Frontend, tuple[str, ...]]:
    """How the case's input is worked on, and what is to be said about that."""
    if case.input.kind is InputKind.ONNX:
        from triage.reduce.frontends.onnx import OnnxFormat  # slow to import, and seldom needed

        return OnnxFormat(), ()
    tools = bench.prober.mlir_tools(case, toolchain)
    prepared = bench.prober.input_of(case)
    assert isinstance(prepared, Prepared)  # it was compiled
    if tools is not None:
        reader = Reader(tools, bench.stop)
        if reader.readable(prepared.path):
            return MlirFormat(reader, *_newest_reader(bench, case, toolchain, prepared.path)), ()
        reader.close()
    suffix = prepared.path.suffix.lstrip(".")
    if suffix == "py" and parsed(prepared.path.read_bytes()) is not None:
        return PythonFormat(case), ()
    kind = InputKind(suffix) if suffix in (InputKind.MLIR, InputKind.BYTECODE) else InputKind.OTHER
    note = "no tool of this toolchain reads the input: it was reduced as plain text, by blocks and lines"
    return TextFormat(kind, suffix or "txt"), (note,)


def _newest_reader(bench: ProbeRunner, case: Case, toolchain: Toolchain, path: Path) -> Iterator[Reader]:
    """The tools of the newest release at hand, where they read the input: what is reduced shall be of use there as well,
    and newer verifiers refuse programs that older ones let pass.
    """
    places = bench.shed.at_hand(case.compiler)
    newest = bench.shed.obtain(places[-1]) if places else toolchain
    tools = bench.prober.mlir_tools(case, newest) if newest.identity != toolchain.identity else None
    if tools is not None:
        reader = Reader(tools, bench.stop)
        if reader.readable(path):
            yield reader
        else:
            reader.close()
