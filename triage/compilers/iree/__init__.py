"""IREE: found in wheels, virtual environments and build trees; driven through its native `iree-compile`."""

from triage.compilers.iree.adapter import Iree

__all__ = ["Iree"]
