"""Prepare the file that a compiler reads: run generators and import ONNX models, once for each content and importer."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from triage.execution.cache import Record, ResultCache
from triage.execution.claims import Claims
from triage.execution.environment import settings
from triage.execution.judge import machine_problem
from triage.execution.onnx_import import OnnxImporters, is_broken
from triage.execution.process import run
from triage.model.case import Case, InputKind
from triage.model.content import file_sha256
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.home import disk_errors, temporary_folder, write_whole

_CHECKSUM = ".sha256"  # suffix of the file beside an input


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file ready to compile and the SHA-256 of its bytes."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class FailedImport:
    """An import of a model that failed. cached: before, so that nothing was imported."""

    execution: Execution
    cached: bool = False


class Inputs:
    """Prepares inputs below `folder`, again when they are damaged. Several threads and processes may share the folder."""

    def __init__(
        self,
        folder: Path,
        stop: threading.Event,
        *,
        fresh: bool,
        onnx: OnnxImporters,
        evidence: ResultCache,
        delivered: Path | None = None,
    ) -> None:
        """Prepare nothing yet.

        fresh: prepare every input again, once; onnx: imports ONNX models; evidence: where failed imports are recorded;
        delivered: contains inputs that another machine prepared, each in a folder that has its digest as name.
        """
        self._folder = folder
        self._stop = stop
        self._fresh = fresh
        self._onnx = onnx
        self._evidence = evidence
        self._delivered = delivered
        self._claims = Claims(folder.with_name("claims.lock"), stop)
        self._prepared: dict[str, Prepared | Untestable | FailedImport] = {}
        self._locks: dict[str, threading.Lock] = {}  # one for each input, so that it is prepared once
        self._lock = threading.Lock()

    def prepare(
        self, case: Case, toolchain: Toolchain | None = None, importer: Path | None = None
    ) -> Prepared | Untestable | FailedImport:
        """Return the file for a case; Untestable with the reason when its generator fails.

        toolchain: imports an ONNX model; importer: its folder of Python modules, if it has one.
        """
        if self._delivered in case.input.path.parents:
            return Prepared(case.input.path, case.input.path.parent.name)
        identity = toolchain.identity if toolchain and case.input.kind is InputKind.ONNX else ""
        key = f"{case.input.path}\0{case.input.args}\0{settings(dict(case.env))}\0{identity}"
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if (known := self._prepared.get(key)) is not None:
                return known
            prepared = self._prepare(case, toolchain, importer)
            self._prepared[key] = replace(prepared, cached=True) if isinstance(prepared, FailedImport) else prepared
            return prepared

    def close(self) -> None:
        """End what imports models."""
        self._onnx.close()

    def _prepare(self, case: Case, toolchain: Toolchain | None, importer: Path | None) -> Prepared | Untestable | FailedImport:
        source = case.input.path
        try:
            if case.input.kind not in (InputKind.GENERATOR, InputKind.ONNX):
                return Prepared(source, file_sha256(source))
            if case.input.kind is InputKind.ONNX:
                return self._import(case, toolchain, importer)
            target = self._folder / f"{self._key(case)}.mlir"
        except OSError as error:
            return Untestable(Cause.RECIPE, f"{source}: {error.strerror}")
        if not self._fresh and (digest := verified(target)) is not None:
            return Prepared(target, digest)
        with self._draft() as draft:
            execution = self._generate(case, draft)
            if (machine := machine_problem(execution)) is not None and machine.cause is Cause.ENVIRONMENT:
                return machine
            if (problem := _problem(case, f"the generator {source.name}", execution, draft)) is not None:
                return Untestable(Cause.RECIPE, problem)
            return _kept(draft, target)

    def _import(self, case: Case, toolchain: Toolchain | None, importer: Path | None) -> Prepared | Untestable | FailedImport:
        """Import a model. A failed import is recorded, so that it is not tried again."""
        identity = toolchain.identity if toolchain else ""
        key = sha256(f"{self._key(case)}\0{identity}\0{self._onnx.identity(importer)}".encode()).hexdigest()
        target = self._folder / f"{key}.mlir"
        if known := self._imported(key, target):
            return known
        with self._claims.claim(key):
            return self._imported(key, target) or self._import_now(case, toolchain, importer, key, target)

    def _imported(self, key: str, target: Path) -> Prepared | FailedImport | None:
        """Return what is known of an import; None when it has to be made."""
        if self._fresh:
            return None
        if (digest := verified(target)) is not None:
            return Prepared(target, digest)
        record = self._evidence.find(key)
        return FailedImport(record.execution, cached=True) if record else None

    def _import_now(
        self, case: Case, toolchain: Toolchain | None, importer: Path | None, key: str, target: Path
    ) -> Prepared | Untestable | FailedImport:
        with self._draft() as draft:
            execution = self._onnx.run(case, importer, draft)
            if execution is None:
                return _kept(draft, target)
        if (machine := machine_problem(execution)) is not None:
            return machine
        if is_broken(execution):
            return Untestable(Cause.RECIPE, f"no importer for ONNX runs here: {execution.stderr.last_line[:300]}")
        name = toolchain.revision.name if toolchain else ""
        portable = replace(execution, argv=(*execution.argv[1:3], case.input.path.name))
        self._evidence.add(Record(key, case.name, name, datetime.now(UTC).isoformat(timespec="seconds"), portable))
        return FailedImport(execution)

    @contextmanager
    def _draft(self) -> Iterator[Path]:
        """A file to write, in a folder that is removed afterwards."""
        with disk_errors("prepare an input"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary_folder(self._folder, prefix=".making-") as scratch:
                yield Path(scratch) / "made.mlir"

    def _generate(self, case: Case, draft: Path) -> Execution:
        words = [word for name, value in case.input.args for word in (f"--{name}", value)]
        argv = [sys.executable, str(case.input.path), *words]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        return run(argv, case.limits, draft.parent, env=env, stdout_to=draft, stop=self._stop)

    def _key(self, case: Case) -> str:
        """Return the content address of what a generator or importer writes.

        It covers the code, including neighbouring modules that the generator may import, the arguments, and the versions
        of what runs it.
        """
        content = sha256(f"{case.input.kind}\0{sys.version_info[:2]}\0{case.input.args}\0".encode())
        content.update("".join(f"env {setting}\0" for setting in settings(dict(case.env))).encode("utf-8", "surrogateescape"))
        if case.input.kind is InputKind.ONNX:
            versions = [_version(package) for package in self._onnx.packages]
            content.update("\0".join((*versions, file_sha256(case.input.path))).encode())
            return content.hexdigest()
        for path in _modules(case.input.path):
            content.update(f"{path.name}\0{file_sha256(path)}\0".encode())
        return content.hexdigest()


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


def verified(target: Path) -> str | None:
    """Return the digest of a file; None when it is missing, damaged, or of a version that wrote no checksums."""
    try:
        digest = file_sha256(target)
        return digest if target.with_suffix(_CHECKSUM).read_bytes() == f"{digest}\n".encode() else None
    except OSError:
        return None


def digest_of(file: Path, *, is_artifact: bool) -> str:
    """Return the digest of a file. That of an artifact, which may be large, was written when it was obtained."""
    return file.with_suffix(_CHECKSUM).read_text("ascii").strip() if is_artifact else file_sha256(file)


def write_checksum(target: Path, content: Path) -> str:
    """Write the checksum that `target` will have with the content of another file, and return it."""
    digest = file_sha256(content)
    write_whole(target.with_suffix(_CHECKSUM), f"{digest}\n")
    return digest


def _kept(draft: Path, target: Path) -> Prepared:
    digest = write_checksum(target, draft)
    draft.replace(target)
    return Prepared(target, digest)
