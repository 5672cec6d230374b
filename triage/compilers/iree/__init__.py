"""IREE: found in wheels, virtual environments and build trees; driven through its native `iree-compile`."""

from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.command_line import Pasted, read_pasted

__all__ = ["Iree", "Pasted", "read_pasted"]
