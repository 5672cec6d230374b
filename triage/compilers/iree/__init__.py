"""IREE: found in wheels, virtual environments and build trees; run through its native `iree-compile`."""

from triage.compilers.iree.adapter import Iree

__all__ = ["Iree"]
