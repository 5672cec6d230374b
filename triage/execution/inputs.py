"""From what a recipe names to the bytes a compiler reads: generators run, ONNX imported, once per content."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.compilers.base import Importer
from triage.execution.process import run
from triage.model.case import Case, InputKind
from triage.model.execution import Ending, Execution, Limits
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import disk_errors


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file ready to be compiled and the SHA-256 of its bytes."""

    path: Path
    digest: str


class Inputs:
    """Prepares inputs below `folder`; each content is made once, by several threads and processes as well."""

    def __init__(
        self,
        folder: Path,
        stop: threading.Event,
        *,
        fresh: bool = False,
        onnx: Importer | None = None,
        importers: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        """`fresh`: make every input anew, once. `onnx`: what imports ONNX models; `importers` lists the roots of toolchains
        for this Python, best first, whose importer is tried where the one beside this program does not run.
        """
        self._onnx = onnx
        self._folder = folder
        self._stop = stop
        self._fresh = fresh
        self._importers = importers
        self._made: dict[str, Prepared | Untestable] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def prepare(self, case: Case) -> Prepared | Untestable:
        """The file for a case. Untestable (recipe) when its generator or importer fails, with the reason."""
        key = f"{case.input.path}\0{case.input.args}"
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            if key not in self._made:
                self._made[key] = self._prepare(case)
            return self._made[key]

    def _prepare(self, case: Case) -> Prepared | Untestable:
        source = case.input.path
        try:
            if case.input.kind not in (InputKind.GENERATOR, InputKind.ONNX):
                return Prepared(source, _digest(source))
            if case.input.kind is InputKind.ONNX and self._onnx is None:
                return Untestable(Cause.RECIPE, f"{source}: nothing here imports ONNX")
            made = self._folder / f"{self._key(case)}.mlir"
        except OSError as error:
            return Untestable(Cause.RECIPE, f"{source}: {error.strerror}")
        if made.is_file() and not self._fresh:
            return Prepared(made, _digest(made))
        with disk_errors("prepare an input"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._folder, prefix=".making-") as scratch:
                draft = Path(scratch) / "made.mlir"
                execution = self._make(case, draft)
                if (trouble := _trouble(case, self._maker(case), execution, draft)) is not None:
                    return Untestable(Cause.RECIPE, trouble)
                draft.replace(made)
        return Prepared(made, _digest(made))

    def _make(self, case: Case, draft: Path) -> Execution:
        limits = Limits(timeout=case.limits.timeout, memory=case.limits.memory)
        source = str(case.input.path)
        if case.input.kind is InputKind.ONNX:
            assert self._onnx
            argv = [sys.executable, "-m", self._onnx.module, source, "-o", str(draft)]
            return self._first_that_runs(argv, limits, draft)
        given = [text for name, value in case.input.args for text in (f"--{name}", value)]
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}  # the same program prints the same input
        return run([sys.executable, source, *given], limits, draft.parent, env=env, stdout_to=draft, stop=self._stop)

    def _first_that_runs(self, argv: list[str], limits: Limits, draft: Path) -> Execution:
        """Wheels with a broken importer exist: it fails to import a module before it has looked at the model."""
        execution = run(argv, limits, draft.parent, stop=self._stop)
        for root in self._importers() if _does_not_run(execution) else ():
            other = run(argv, limits, draft.parent, env={"PYTHONPATH": str(root)}, stop=self._stop)
            if not _does_not_run(other):
                return other
        return execution

    def _maker(self, case: Case) -> str:
        if case.input.kind is InputKind.GENERATOR:
            return f"the generator {case.input.path.name}"
        return self._onnx.module if self._onnx else "the importer"

    def _key(self, case: Case) -> str:
        """The content address of what a generator or importer will make: its code (neighbours that it may import
        included), its arguments, and the versions of what runs it.
        """
        whole = sha256(f"{case.input.kind}\0{sys.version_info[:2]}\0{case.input.args}\0".encode())
        if case.input.kind is InputKind.ONNX:
            versions = [_version(package) for package in (self._onnx.packages if self._onnx else ())]
            whole.update("\0".join((*versions, _digest(case.input.path))).encode())
            return whole.hexdigest()
        for path in _sources(case.input.path):
            whole.update(f"{path.name}\0{_digest(path)}\0".encode())
        return whole.hexdigest()


def _does_not_run(execution: Execution) -> bool:
    said = execution.stderr.text
    return not execution.ok and ("No module named" in said or "ImportError" in said)


def _trouble(case: Case, who: str, execution: Execution, draft: Path) -> str | None:
    """Why a generator or importer, `who`, gave no input; None when it gave one."""
    said = [line for line in execution.stderr.text.splitlines() if line.strip()]
    last = f": {said[-1].strip()[:300]}" if said else ""
    match execution.ending:
        case Ending.TIMED_OUT:
            return f"{who} did not end within {case.limits.timeout:g} s"
        case Ending.OVER_MEMORY:
            return f"{who} used more than {case.limits.memory >> 20} MiB"
        case Ending.OVER_OUTPUT:
            return f"{who} printed more than 2 GiB"
        case Ending.SIGNALLED:
            return f"{who} was ended by signal {execution.signal}{last}"
        case Ending.NOT_STARTED:
            return f"{who} could not be started{last}"
    if execution.exit_code != 0:
        return f"{who} failed with exit status {execution.exit_code}{last}"
    if not draft.is_file() or draft.stat().st_size == 0:
        return f"{who} printed nothing"
    return None


def _sources(script: Path) -> Iterator[Path]:
    yield script
    with os.scandir(script.parent) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(".py") and entry.name != script.name)
    for name in names:
        if name.removesuffix(".py") in script.read_text("utf-8", "replace"):
            yield script.parent / name


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return file_digest(source, "sha256").hexdigest()
