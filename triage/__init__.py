"""Triage of compiler regressions: compile, classify, bisect and report on real released compilers."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("iree-triage")
except PackageNotFoundError:  # a source tree on PYTHONPATH that was never installed
    __version__ = "0+unknown"
