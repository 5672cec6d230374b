"""Triton: its wheel unpacked, its kernels compiled ahead of time by a worker that needs neither a GPU nor torch."""

from triage.compilers.triton.adapter import Triton

__all__ = ["Triton"]
