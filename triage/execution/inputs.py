"""Prepare the files that a task reads, once for each content: generators, ONNX imports, and the files that suites refer to."""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from triage.execution.cache import Record, ResultCache
from triage.execution.environment import settings
from triage.execution.judge import machine_problem
from triage.execution.onnx_import import OnnxImporters, is_broken
from triage.execution.process import run
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.home import disk_errors, temporary_folder, write_whole

Download = Callable[[str, Path], None]  # a URL and the file to write; EnvironmentFailure when it cannot be downloaded
_CHECKSUM = ".sha256"  # suffix of the file next to an input


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file ready to compile and the SHA-256 of its bytes."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class FailedImport:
    """An import of a model that failed."""

    execution: Execution
    cached: bool = False
    """It failed before, so that nothing was imported."""


class Inputs:
    """Prepares inputs below `folder`, again when they are damaged. Safe for several threads and processes."""

    def __init__(
        self, folder: Path, cache: ResultCache, stop: threading.Event, *, fresh: bool, onnx: OnnxImporters, download: Download
    ) -> None:
        """Prepare nothing yet.

        fresh: prepare every input again, once; onnx: imports ONNX models; cache: where failed imports are recorded; download:
        obtains a file of a suite.
        """
        self._folder, self._cache, self._stop, self._fresh = folder, cache, stop, fresh
        self._onnx, self._download = onnx, download
        self._prepared: dict[str, Prepared | Untestable | FailedImport] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # so that each file is made once
        self._unreachable: dict[str, str] = {}  # host -> reason, so that a suite waits for a dead host once

    def close(self) -> None:
        """End what imports models."""
        self._onnx.close()

    def prepare(
        self, case: Case, toolchain: Toolchain | None = None, importer: Path | None = None
    ) -> Prepared | Untestable | FailedImport:
        """Return the file for a case, or why there is none.

        toolchain: imports an ONNX model; importer: its folder of Python modules, if it has one.
        """
        if (problem := self.obtain(case.artifacts)) is not None:
            return problem
        identity = toolchain.identity if toolchain and case.input.kind is InputKind.ONNX else ""
        key = f"{case.input.path}\0{case.input.args}\0{settings(dict(case.env))}\0{identity}"
        with self._locks[key]:
            if (known := self._prepared.get(key)) is not None:
                return known
            try:
                prepared = self._prepare(case, toolchain, importer)
            except OSError as error:
                prepared = Untestable(Cause.RECIPE, f"{case.input.path}: {error.strerror}")
            self._prepared[key] = replace(prepared, cached=True) if isinstance(prepared, FailedImport) else prepared
            return prepared

    def _prepare(self, case: Case, toolchain: Toolchain | None, importer: Path | None) -> Prepared | Untestable | FailedImport:
        source, is_onnx = case.input.path, case.input.kind is InputKind.ONNX
        if not is_onnx and case.input.kind is not InputKind.GENERATOR:
            return Prepared(source, file_sha256(source))
        key = self._key(case)
        if is_onnx:
            identity = toolchain.identity if toolchain else ""
            key = sha256(f"{key}\0{identity}\0{self._onnx.identity(importer)}".encode()).hexdigest()
        target = self._folder / f"{key}.mlir"
        if not self._fresh:
            if (digest := verified(target)) is not None:
                return Prepared(target, digest)
            if is_onnx and (record := self._cache.find(key)):
                return FailedImport(record.execution, cached=True)
        with disk_errors("prepare an input"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary_folder(self._folder, prefix=".making-") as scratch:
                draft = scratch / "made.mlir"
                execution = self._onnx.run(case, importer, draft) if is_onnx else self._generate(case, draft)
                if execution.ok and draft.is_file() and draft.stat().st_size:
                    digest = write_checksum(target, draft)
                    draft.replace(target)
                    return Prepared(target, digest)
        machine = machine_problem(execution)
        if machine is not None and (is_onnx or machine.cause is Cause.ENVIRONMENT):
            return machine
        if not is_onnx:
            return Untestable(Cause.RECIPE, _problem(case, execution))
        if is_broken(execution):
            return Untestable(Cause.RECIPE, f"no importer for ONNX runs here: {execution.stderr.last_line[:300]}")
        name = toolchain.revision.name if toolchain else ""
        portable = replace(execution, argv=(*execution.argv[1:3], source.name))
        self._cache.add(Record(key, case.name, name, datetime.now(UTC).isoformat(timespec="seconds"), portable))
        return FailedImport(execution)

    def _generate(self, case: Case, draft: Path) -> Execution:
        words = [word for name, value in case.input.args for word in (f"--{name}", value)]
        argv = [sys.executable, str(case.input.path), *words]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        return run(argv, case.limits, draft.parent, env=env, stdout_to=draft, stop=self._stop)

    def _key(self, case: Case) -> str:
        """Return the content key of what a generator or importer writes.

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

    def obtain(self, artifacts: Iterable[Artifact]) -> Untestable | None:
        """Download or generate the missing files of a suite; return why the first one cannot be obtained."""
        for artifact in artifacts:
            with self._locks[str(artifact.path)]:
                if not artifact.path.is_file() and (problem := self._obtain(artifact)) is not None:
                    return problem
        return None

    def _obtain(self, artifact: Artifact) -> Untestable | None:
        folder = artifact.path.parent
        with disk_errors("keep a file of a suite"):
            folder.mkdir(parents=True, exist_ok=True)
            with temporary_folder(folder, prefix=".making-") as scratch:
                draft = scratch / artifact.path.name
                try:
                    if isinstance(artifact.source, str):
                        self._fetch(artifact.source, draft)
                    else:
                        artifact.source.write(draft)
                except EnvironmentFailure as error:
                    return Untestable(Cause.ENVIRONMENT, f"{artifact.source}: {error}")
                except ValueError as error:
                    return Untestable(Cause.RECIPE, str(error))
                write_checksum(artifact.path, draft)
                draft.replace(artifact.path)
        return None

    def _fetch(self, url: str, draft: Path) -> None:
        host = urlsplit(url).netloc
        if host in self._unreachable:
            raise EnvironmentFailure(self._unreachable[host])
        try:
            self._download(url, draft)
        except Unobtainable:  # the host answers
            raise
        except EnvironmentFailure as error:
            self._unreachable[host] = str(error)
            raise


def _problem(case: Case, execution: Execution) -> str:
    """Return why a generator wrote no input."""
    limits, words = case.limits, execution.stderr.last_line[:300]
    last = f": {words}" if words else ""
    endings = {
        Ending.TIMED_OUT: f"did not end within {limits.timeout:g} s",
        Ending.OVER_MEMORY: f"used more than {limits.memory >> 20} MiB",
        Ending.OVER_OUTPUT: f"wrote more than {limits.output >> 20} MiB",
        Ending.SIGNALLED: f"was killed by signal {execution.signal}{last}",
        Ending.NOT_STARTED: f"could not be started{last}",
        Ending.EXITED: f"failed with exit status {execution.exit_code}{last}" if execution.exit_code else "printed nothing",
    }
    return f"the generator {case.input.path.name} {endings[execution.ending]}"


def _modules(script: Path) -> Iterator[Path]:
    """Yield a script and the modules next to it whose names it mentions."""
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
    """Return the digest of a file; None when it is missing or damaged."""
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
