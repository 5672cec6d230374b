"""Triton: its wheel unpacked, its kernels compiled ahead of time by a worker that needs neither a GPU nor torch."""

from triage.compilers.triton.adapter import Triton
from triage.compilers.triton.chips import Chip, chip_of

__all__ = ["Chip", "Triton", "chip_of"]
