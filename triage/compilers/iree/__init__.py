"""IREE: found in wheels, virtual environments and build trees; driven through its native `iree-compile`."""

from triage.compilers.base import Importer
from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.command_line import Pasted, read_pasted

__all__ = ["ONNX_IMPORTER", "Iree", "Pasted", "read_pasted"]

ONNX_IMPORTER = Importer("iree.compiler.tools.import_onnx", ("iree-base-compiler", "onnx"))
