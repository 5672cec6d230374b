"""Triton: its unpacked wheel, with a worker that compiles kernels ahead of time without a GPU or torch."""

from triage.compilers.triton.adapter import Triton

__all__ = ["Triton"]
