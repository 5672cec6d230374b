"""Prepare the files that a task reads, once for each content: generators, ONNX imports, and the files that suites refer to."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from triage.execution.cache import Record, ResultCache
from triage.execution.environment import settings
from triage.execution.files import KeptFiles, Prepared
from triage.execution.judge import judge_import, machine_problem, rules_of
from triage.execution.onnx_models import OnnxImporters, is_broken, version_of
from triage.execution.process import run
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.model.outcome import Cause, Failed, Untestable
from triage.model.revision import Toolchain

Download = Callable[[str, Path], None]  # a URL and the file to write; EnvironmentFailure when it cannot be downloaded


@dataclass(frozen=True, slots=True)
class FailedImport:
    """A model that cannot be imported."""

    outcome: Failed
    cached: bool = False


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
        self._onnx, self._download, self._kept = onnx, download, KeptFiles()
        self._prepared: dict[str, Prepared | Untestable | FailedImport] = {}
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
        source, kind = case.input.path, case.input.kind
        identity = f"{toolchain.identity if toolchain else ''}\0{case.rules}" if kind is InputKind.ONNX else ""
        memo = f"{source}\0{case.input.args}\0{settings(dict(case.env))}\0{identity}"
        try:
            if memo in self._prepared:
                return self._prepared[memo]
            if kind not in (InputKind.ONNX, InputKind.GENERATOR):
                prepared: Prepared | Untestable | FailedImport = Prepared(source, file_sha256(source))
            else:
                key = self._key(case)
                if kind is InputKind.ONNX:
                    root = toolchain.identity if toolchain else ""
                    key = sha256(f"{key}\0{root}\0{self._onnx.identity(importer)}".encode()).hexdigest()

                def make(scratch: Path) -> Path | Untestable | FailedImport:
                    if kind is InputKind.GENERATOR:
                        return self._generated(case, scratch / "made.mlir")
                    return self._imported(case, key, importer, toolchain.revision.name if toolchain else "", scratch)

                prepared = self._kept.get(self._folder / f"{key}.mlir", make, fresh=self._fresh)
        except OSError as error:
            prepared = Untestable(Cause.RECIPE, f"{source}: {error.strerror}")
        return self._prepared.setdefault(memo, prepared)

    def _generated(self, case: Case, target: Path) -> Path | Untestable:
        words = [word for name, value in case.input.args for word in (f"--{name}", value)]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        argv = [sys.executable, str(case.input.path), *words]
        execution = run(argv, case.limits, target.parent, env=env, stdout_to=target, stop=self._stop)
        if execution.ok and target.is_file() and target.stat().st_size:
            return target
        machine = machine_problem(execution)
        if machine and machine.cause is Cause.ENVIRONMENT:
            return machine
        limits, words_of_error = case.limits, execution.stderr.last_line[:300]
        last = f": {words_of_error}" if words_of_error else ""
        endings = {
            Ending.TIMED_OUT: f"did not end within {limits.timeout:g} s",
            Ending.OVER_MEMORY: f"used more than {limits.memory >> 20} MiB",
            Ending.OVER_OUTPUT: f"wrote more than {limits.output >> 20} MiB",
            Ending.SIGNALLED: f"was killed by signal {execution.signal}{last}",
            Ending.NOT_STARTED: f"could not be started{last}",
            Ending.EXITED: f"failed with exit status {execution.exit_code}{last}" if execution.exit_code else "printed nothing",
        }
        return Untestable(Cause.RECIPE, f"the generator {case.input.path.name} {endings[execution.ending]}")

    def _imported(
        self, case: Case, key: str, importer: Path | None, toolchain: str, scratch: Path
    ) -> Path | Untestable | FailedImport:
        target = scratch / "made.mlir"
        if known := self._cache.find(key):
            return FailedImport(judge_import(known.execution, rules_of(case)), cached=True)
        execution = self._onnx.run(case, importer, target)
        if execution.ok and target.is_file() and target.stat().st_size:
            return target
        if machine := machine_problem(execution):
            return machine
        if is_broken(execution):
            return Untestable(Cause.RECIPE, f"no importer for ONNX runs here: {execution.stderr.last_line[:300]}")
        portable = replace(execution, argv=(*execution.argv[1:3], case.input.path.name))
        self._cache.add(Record(key, case.name, toolchain, portable))
        return FailedImport(judge_import(execution, rules_of(case)))

    def _key(self, case: Case) -> str:
        """Return the content key of what a generator or importer writes.

        It covers the code, including neighbouring modules that the generator may import, the arguments, and the versions
        of what runs it.
        """
        content = sha256(f"{case.input.kind}\0{sys.version_info[:2]}\0{case.input.args}\0".encode())
        content.update("".join(f"env {setting}\0" for setting in settings(dict(case.env))).encode("utf-8", "surrogateescape"))
        if case.input.kind is InputKind.ONNX:
            content.update("\0".join((*map(version_of, self._onnx.packages), file_sha256(case.input.path))).encode())
            return content.hexdigest()
        for path in _modules(case.input.path):
            content.update(f"{path.name}\0{file_sha256(path)}\0".encode())
        return content.hexdigest()

    def obtain(self, artifacts: Iterable[Artifact]) -> Untestable | None:
        """Download or generate the missing files of a suite; return why the first one cannot be obtained."""
        for artifact in artifacts:
            if artifact.path.is_file():  # its digest, which takes long, is not verified
                continue
            obtained = self._kept.get(artifact.path, partial(self._obtained, artifact))
            if isinstance(obtained, Untestable):
                return obtained
        return None

    def _obtained(self, artifact: Artifact, scratch: Path) -> Path | Untestable:
        target, source = scratch / artifact.path.name, artifact.source
        host = urlsplit(source).netloc if isinstance(source, str) else ""
        if host in self._unreachable:
            return Untestable(Cause.ENVIRONMENT, f"{source}: {self._unreachable[host]}")
        try:
            if isinstance(source, str):
                self._download(source, target)
            else:
                source.write(target)
        except EnvironmentFailure as error:
            if host and not isinstance(error, Unobtainable):  # the host does not answer
                self._unreachable[host] = str(error)
            return Untestable(Cause.ENVIRONMENT, f"{source}: {error}")
        except ValueError as error:
            return Untestable(Cause.RECIPE, str(error))
        return target


def _modules(script: Path) -> Iterator[Path]:
    """Yield a script and the modules next to it whose names it mentions."""
    yield script
    with os.scandir(script.parent) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(".py") and entry.name != script.name)
    text = script.read_text("utf-8", "replace")
    yield from (script.parent / name for name in names if name.removesuffix(".py") in text)
