"""Prepare the file that a compiler reads: run generators and import ONNX models, once for each content."""

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
from triage.execution.environment import settings
from triage.execution.judge import machine_problem
from triage.execution.process import run
from triage.model.case import Case, InputKind
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file ready to compile and the SHA-256 of its bytes."""

    path: Path
    digest: str


class Inputs:
    """Prepares inputs below `folder`, again when they are damaged. Several threads and processes may share the folder."""

    def __init__(
        self, folder: Path, stop: threading.Event, *, fresh: bool, onnx: Importer, importers: Callable[[], Sequence[Path]]
    ) -> None:
        """Prepare nothing yet.

        fresh: prepare every input again, once; onnx: imports ONNX models; importers: roots of the toolchains for this
        Python, best first, whose importer is used when the one beside this program does not run.
        """
        self._folder = folder
        self._stop = stop
        self._fresh = fresh
        self._onnx = onnx
        self._importers = importers
        self._prepared: dict[str, Prepared | Untestable] = {}
        self._locks: dict[str, threading.Lock] = {}  # one for each input, so that it is prepared once
        self._lock = threading.Lock()

    def prepare(self, case: Case) -> Prepared | Untestable:
        """Return the file for a case; Untestable with the reason when its generator or importer fails."""
        key = f"{case.input.path}\0{case.input.args}\0{settings(dict(case.env))}"
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._prepared:
                self._prepared[key] = self._prepare(case)
            return self._prepared[key]

    def _prepare(self, case: Case) -> Prepared | Untestable:
        source = case.input.path
        try:
            if case.input.kind not in (InputKind.GENERATOR, InputKind.ONNX):
                return Prepared(source, _digest(source))
            target = self._folder / f"{self._key(case)}.mlir"
        except OSError as error:
            return Untestable(Cause.RECIPE, f"{source}: {error.strerror}")
        checksum = target.with_suffix(".sha256")
        if not self._fresh and (digest := _verified(target, checksum)) is not None:
            return Prepared(target, digest)
        with disk_errors("prepare an input"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._folder, prefix=".making-") as scratch:
                draft = Path(scratch) / "made.mlir"
                if case.input.kind is InputKind.ONNX:
                    program, execution = self._onnx.module, self._import(case, draft)
                else:
                    program, execution = f"the generator {source.name}", self._generate(case, draft)
                if (machine := machine_problem(execution)) is not None and machine.cause is Cause.ENVIRONMENT:
                    return machine
                if (problem := _problem(case, program, execution, draft)) is not None:
                    return Untestable(Cause.RECIPE, problem)
                digest = _digest(draft)
                write_whole(checksum, f"{digest}\n")
                draft.replace(target)
        return Prepared(target, digest)

    def _generate(self, case: Case, draft: Path) -> Execution:
        words = [word for name, value in case.input.args for word in (f"--{name}", value)]
        argv = [sys.executable, str(case.input.path), *words]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        return run(argv, case.limits, draft.parent, env=env, stdout_to=draft, stop=self._stop)

    def _import(self, case: Case, draft: Path) -> Execution:
        """Use the first importer that runs: in some wheels it fails on an import before it reads the model."""
        argv = [sys.executable, "-m", self._onnx.module, str(case.input.path), "-o", str(draft)]
        execution = run(argv, case.limits, draft.parent, env=dict(case.env), stop=self._stop)
        for root in self._importers() if _importer_is_broken(execution) else ():
            env = {**dict(case.env), "PYTHONPATH": str(root)}
            other = run(argv, case.limits, draft.parent, env=env, stop=self._stop)
            if not _importer_is_broken(other):
                return other
        return execution

    def _key(self, case: Case) -> str:
        """Return the content address of what a generator or importer writes.

        It covers the code, including neighbouring modules that the generator may import, the arguments, and the versions
        of what runs it.
        """
        content = sha256(f"{case.input.kind}\0{sys.version_info[:2]}\0{case.input.args}\0".encode())
        content.update("".join(f"env {setting}\0" for setting in settings(dict(case.env))).encode("utf-8", "surrogateescape"))
        if case.input.kind is InputKind.ONNX:
            versions = [_version(package) for package in self._onnx.packages]
            content.update("\0".join((*versions, _digest(case.input.path))).encode())
            return content.hexdigest()
        for path in _modules(case.input.path):
            content.update(f"{path.name}\0{_digest(path)}\0".encode())
        return content.hexdigest()


def _importer_is_broken(execution: Execution) -> bool:
    text = execution.stderr.text
    return not execution.ok and ("No module named" in text or "ImportError" in text)


def _problem(case: Case, program: str, execution: Execution, draft: Path) -> str | None:
    """Return why a generator or importer wrote no input; None when it wrote one."""
    last = f": {execution.stderr.last_line[:300]}" if not execution.stderr.empty else ""
    match execution.ending:
        case Ending.TIMED_OUT:
            return f"{program} did not end within {case.limits.timeout:g} s"
        case Ending.OVER_MEMORY:
            return f"{program} used more than {case.limits.memory >> 20} MiB"
        case Ending.OVER_OUTPUT:
            return f"{program} wrote more than {case.limits.output >> 20} MiB"
        case Ending.SIGNALLED:
            return f"{program} was killed by signal {execution.signal}{last}"
        case Ending.NOT_STARTED:
            return f"{program} could not be started{last}"
    if execution.exit_code != 0:
        return f"{program} failed with exit status {execution.exit_code}{last}"
    if not draft.is_file() or draft.stat().st_size == 0:
        return f"{program} printed nothing"
    return None


def _modules(script: Path) -> Iterator[Path]:
    """Yield a script and the modules beside it whose names it mentions."""
    yield script
    with os.scandir(script.parent) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(".py") and entry.name != script.name)
    text = script.read_text("utf-8", "replace")
    yield from (script.parent / name for name in names if name.removesuffix(".py") in text)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _verified(target: Path, checksum: Path) -> str | None:
    """Return the digest of a file; None when it is missing, damaged, or of a version that wrote no checksums."""
    try:
        digest = _digest(target)
        return digest if checksum.read_bytes() == f"{digest}\n".encode() else None
    except OSError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return file_digest(source, "sha256").hexdigest()
