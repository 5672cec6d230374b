"""Import ONNX models with the importer of each toolchain. One process imports many models."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path

from triage.compilers.base import ModelImporter
from triage.execution.process import Worker, run
from triage.model.case import Case
from triage.model.execution import Captured, Ending, Execution

_WORKERS = 2  # processes at most, for the two toolchains of a comparison
_PATIENCE = 20.0  # seconds for a model, and to start; what takes longer is imported under the limits of its case
_LARGEST = 16 << 20  # bytes of a model that a worker imports; others get a process with limits of their own
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
        self._workers: OrderedDict[Path | None, Worker] = OrderedDict()
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

    def run(self, case: Case, root: Path | None, draft: Path) -> Execution:
        """Import a case's model into `draft`, with the importer below `root`, else with the first one that runs."""
        first: Execution | None = None
        for place in chain([root] if root else [], [None], self._others()):
            if place in self._broken:
                continue
            execution = self._with_worker(case, place, draft) or self._alone(case, place, draft)
            if not is_broken(execution):
                return execution
            self._broken.add(place)
            first = first or execution
        return first or self._alone(case, root, draft)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._workers:
                self._workers.popitem()[1].close()

    def _alone(self, case: Case, root: Path | None, draft: Path) -> Execution:
        """Import in a process of its own, whose execution has all facts."""
        argv = [sys.executable, "-m", self._importer.module, str(case.input.path), "-o", str(draft)]
        env = {**dict(case.env), **self._python_path(root)}
        return run(argv, case.limits, draft.parent, env=env, stop=self._stop)

    def _python_path(self, root: Path | None) -> dict[str, str]:
        folders = [str(folder) for folder in (root, self._provide()) if folder]
        return {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}

    def _with_worker(self, case: Case, root: Path | None, draft: Path) -> Execution | None:
        """Return the execution of a model that the worker of a toolchain imported. It is asked only for small models."""
        if case.env or case.input.path.stat().st_size > _LARGEST:
            return None
        request = json.dumps([str(case.input.path), str(draft)]).encode()
        with self._lock:
            try:
                worker = self._workers.pop(root, None) or self._start(root)
            except OSError:
                return None
            answer = None
            try:
                answer = worker.ask(request, min(case.limits.timeout, _PATIENCE), self._stop)
            finally:
                if answer is None:
                    worker.close()
            if answer is not None:
                self._workers[root] = worker
                while len(self._workers) > _WORKERS:
                    self._workers.popitem(last=False)[1].close()
        return _IMPORTED if answer == b"+" and draft.is_file() else None

    def _start(self, root: Path | None) -> Worker:
        script = Path(__file__).with_name("python_worker.py")
        env = {"PYTHONDONTWRITEBYTECODE": "1", **self._python_path(root)}
        # -P: modules next to the script must not hide those of the importer.
        return Worker([sys.executable, "-P", str(script), "import", self._importer.module], env)


def is_broken(execution: Execution) -> bool:
    """Return whether the importer does not run here, whatever the model: it, or a package of its version, is not there."""
    return not execution.ok and _IS_MISSING.search(execution.stderr.text) is not None
