"""Inputs of tests in which no ONNX model is imported."""

from __future__ import annotations

import threading
from pathlib import Path

from triage.compilers.base import Importer
from triage.execution.cache import ResultCache
from triage.execution.inputs import Inputs
from triage.execution.onnx_import import OnnxImporters


def no_download(url: str, _target: Path) -> None:
    raise AssertionError(url)


def inputs_without_importer(folder: Path) -> Inputs:
    stop = threading.Event()
    importers = OnnxImporters(Importer("none", ()), tuple, stop, lambda: None)
    return Inputs(folder / "made", ResultCache(folder / "imports.db"), stop, fresh=False, onnx=importers, download=no_download)
