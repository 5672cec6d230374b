"""Import ONNX models with the importer of each toolchain, and compute with onnxruntime what they must return."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

from triage.compilers.base import ModelImporter
from triage.compilers.values import identity_of, read_value
from triage.execution.mlir_tools import WORKER, AnsweringProcess, toolchain_python
from triage.execution.process import StopSignal, run
from triage.model.case import Case
from triage.model.content import file_sha256
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Cause, Untestable

_PROCESSES = 2  # at most, for the two toolchains of a comparison
_PATIENCE = 20.0  # seconds for a model, and to start; what takes longer is imported under the limits of its case
_LARGEST = 16 << 20  # bytes of a model that such a process imports; others get a process with limits of their own
_IMPORTED = Execution((), Ending.EXITED, 0, None, 0.0, 0.0, 0.0, Captured(), Captured())
# The importer's own OnnxImportError is about the model.
_IS_MISSING = re.compile(r"No module named|^ImportError\b|AttributeError: module 'onnx", re.MULTILINE)


class OnnxImporters:
    """The importers of all toolchains. Safe for several threads."""

    def __init__(
        self,
        importer: ModelImporter,
        others: Callable[[], Sequence[Path]],
        stop: threading.Event,
        packages: Callable[[], Path | None],
    ) -> None:
        """Start nothing yet.

        Args:
            importer: The importer's module and the packages that it needs.
            others: Where to look for an importer when that of a toolchain does not run, best first.
            stop: Ends imports.
            packages: Installs what importers need and returns its folder; None if it is installed next to this program.
        """
        self._importer, self._others, self._stop, self._provide = importer, others, stop, packages
        self._running: dict[Path | None, AnsweringProcess] = {}
        self._broken: set[Path | None] = set()  # None: the one next to this program
        self._identities: dict[Path, str] = {}
        self._lock = threading.Lock()

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose versions decide the result."""
        self._provide()
        return self._importer.packages

    def identity(self, root: Path | None) -> str:
        """Return a text that changes with the importer below `root`."""
        if root is None:
            return ""
        if root not in self._identities:
            content = sha256()
            for path in sorted(chain.from_iterable(root.glob(pattern) for pattern in self._importer.files)):
                content.update(f"{path.name}\0".encode() + path.read_bytes())
            self._identities[root] = content.hexdigest()
        return self._identities[root]

    def run(self, case: Case, root: Path | None, target: Path) -> Execution:
        """Import a case's model with the importer below `root`, else with the first one that runs."""
        first: Execution | None = None
        for place in chain([root] if root else [], [None], self._others()):
            if place in self._broken:
                continue
            if self._is_imported(case, place, target):
                return _IMPORTED
            execution = self._alone(case, place, target)
            if not is_broken(execution):
                return execution
            self._broken.add(place)
            first = first or execution
        return first or self._alone(case, root, target)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._running:
                self._running.popitem()[1].close()

    def _path(self, root: Path | None) -> list[Path]:
        return [folder for folder in (root, self._provide()) if folder]

    def _alone(self, case: Case, root: Path | None, target: Path) -> Execution:
        """Import in a process of its own, whose execution has all facts."""
        argv = [sys.executable, "-m", self._importer.module, str(case.input.path), "-o", str(target)]
        path = os.pathsep.join(map(str, self._path(root)))
        env = {**dict(case.env), **({"PYTHONPATH": path} if path else {})}
        return run(argv, case.limits, target.parent, env=env, stop=self._stop)

    def _is_imported(self, case: Case, root: Path | None, target: Path) -> bool:
        """Import a small model in a process that imports many, since its start takes longer than an import."""
        if case.env or case.input.path.stat().st_size > _LARGEST:
            return False
        request = json.dumps([str(case.input.path), str(target)]).encode()
        with self._lock:
            python = self._running.pop(root, None)
            python = python or toolchain_python("import", self._importer.module, self._path(root), self._stop)
            self._running[root] = python  # the last one used is the last one to end
            while len(self._running) > _PROCESSES:
                self._running.pop(next(iter(self._running))).close()
            return python.ask(request, min(case.limits.timeout, _PATIENCE)) == b"+" and target.is_file()


def is_broken(execution: Execution) -> bool:
    """Return whether the importer does not run here, whatever the model: it, or a package of its version, is not there."""
    return not execution.ok and _IS_MISSING.search(execution.stderr.text) is not None


def version_of(package: str) -> str:
    """Return the version of an installed package, or `none`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def reference_key(case: Case) -> str | Untestable:
    """Return what decides the results that onnxruntime computes for a case, as a name, or why it cannot compute them."""
    assert case.run is not None
    if (runtime := version_of("onnxruntime")) == "none":
        advice = "install it with `pip install 'iree-triage[onnxruntime]'`"
        return Untestable(Cause.ENVIRONMENT, f"onnxruntime, the reference of {case.name}, is not installed; {advice}")
    try:
        parts = [runtime, file_sha256(case.input.path), *map(identity_of, case.run.inputs)]
    except OSError as error:
        return Untestable(Cause.RECIPE, f"{error.filename}: {error.strerror}")
    return sha256("\0".join(["onnxruntime", *parts]).encode()).hexdigest()


def compute_reference(case: Case, folder: Path, stop: StopSignal) -> Path | Untestable:
    """Run a case's model on its inputs in a process, which may crash; return the folder with the results."""
    import numpy as np  # slow to import, and only this reference needs it

    assert case.run is not None
    inputs, results = [], folder / "results"
    for index, text in enumerate(case.run.inputs):
        array = read_value(text)
        if array is None:
            return Untestable(Cause.RECIPE, f"onnxruntime cannot be given the value {text}")
        inputs.append(folder / f"input-{index}.npy")
        np.save(inputs[-1], array, allow_pickle=False)
    results.mkdir()
    argv = [sys.executable, "-P", str(WORKER), "compute", str(case.input.path), str(results), *map(str, inputs)]
    execution = run(argv, case.run.limits, folder, env=dict(case.env), stop=stop)
    if execution.ok and any(results.iterdir()):
        return results
    return Untestable(
        Cause.RECIPE, f"onnxruntime does not run the model: {execution.stderr.last_line[:200] or execution.ending}"
    )
