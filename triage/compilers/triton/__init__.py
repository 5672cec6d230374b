"""Triton: its unpacked wheel, with a worker that compiles kernels ahead of time and needs neither a GPU nor torch."""

from triage.compilers.triton.adapter import Triton

__all__ = ["Triton"]
