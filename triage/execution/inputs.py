"""Prepare the files that a task reads, once for each content: generators, ONNX imports,
and the files that suites refer to.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from triage.compilers.base import ModelImporter
from triage.execution.cache import ResultCache
from triage.execution.files import (
    KeptFiles,
    Prepared,
    is_unchanged,
    note_use,
    regular_size,
)
from triage.execution.judge import judge_import, rules_of
from triage.execution.machine_problem import machine_problem
from triage.execution.mlir_tools import toolchain_python
from triage.execution.record import Record
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.answering import AnsweringProcess
from triage.processes.containment import settings
from triage.processes.process import run

# a URL and the file to write; EnvironmentFailure when it cannot be downloaded
Download = Callable[[str, Path], None]

_PROCESSES = 2  # that import models, at most: for the two toolchains of a comparison
# seconds for a model, and to start; what takes longer is imported under the limits of
# its case
_PATIENCE = 20.0
# bytes of a model that such a process imports; others get a process with limits of
# their own
_LARGEST = 16 << 20
_IMPORTED = Execution((), Ending.EXITED, 0, None, 0.0, 0.0, 0.0, Captured(), Captured())
# The importer's own OnnxImportError is about the model.
_IS_MISSING = re.compile(
    r"No module named|^ImportError\b|AttributeError: module 'onnx", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class NoInput:
    """Why the compiler has nothing to read."""

    outcome: NoAnswer | Failed
    cached: bool = False
    """The cache knew it."""


def recipe_mistake(reason: str) -> NoAnswer:
    """Return the answer for a mistake of the recipe."""
    return NoAnswer(Cause.RECIPE, reason)


class Inputs:
    """Prepares inputs below `folder`, again when they are damaged. Safe for several
    threads and processes.
    """

    def __init__(
        self,
        folder: Path,
        cache: ResultCache,
        stop: threading.Event,
        *,
        fresh: bool,
        onnx: OnnxImporters,
        download: Download,
    ) -> None:
        """Prepare nothing yet. If `fresh`, every input is prepared again, once. `cache`
        keeps failed imports.
        """
        self._folder, self._cache, self._stop, self._fresh = folder, cache, stop, fresh
        self._onnx, self._download, self._kept = onnx, download, KeptFiles()
        self._prepared: dict[str, Prepared | NoInput] = {}
        # host -> reason, so that a suite waits for a dead host once
        self._unreachable: dict[str, str] = {}

    def close(self) -> None:
        """End what imports models."""
        self._onnx.close()

    def prepare(
        self,
        case: Case,
        toolchain: Toolchain | None = None,
        importer: Path | None = None,
        generator: tuple[str, ...] = (sys.executable,),
    ) -> Prepared | NoInput:
        """Return the file for a case, or why there is none.

        `toolchain` imports an ONNX model, with the Python modules in the folder
        `importer`; `generator` is the command that runs a generator.
        """
        missing = self.obtain(case.artifacts)
        if missing:
            return NoInput(missing)
        if case.input.imported:
            own = f"{toolchain.identity if toolchain else ''}\0{case.rules}"
        else:
            own = ""
        memo = (
            f"{case.input.path}\0{case.input.args}\0{settings(dict(case.env))}\0{own}"
            f"\0{generator}"
        )
        prepared = self._prepared.get(memo)
        if prepared is None:
            try:
                prepared = self._make(case, toolchain, importer, generator)
            except OSError as error:
                problem = f"{case.input.path}: {error.strerror}"
                prepared = NoInput(recipe_mistake(problem))
            prepared = self._prepared.setdefault(memo, prepared)
        return prepared

    def _make(
        self,
        case: Case,
        toolchain: Toolchain | None,
        importer: Path | None,
        generator: tuple[str, ...],
    ) -> Prepared | NoInput:
        source, kind = case.input.path, case.input.kind
        content = sha256(
            f"{kind}\0{sys.version_info[:2]}\0{case.input.args}\0".encode()
        )
        content.update(
            "".join(f"env {setting}\0" for setting in settings(dict(case.env))).encode(
                "utf-8", "surrogateescape"
            )
        )
        make: Callable[[Path], Path | NoInput]
        if kind is InputKind.GENERATOR:
            if len(generator) > 1:  # a toolchain runs it, not this interpreter
                content.update("".join([*generator[1:], generator[0]]).encode())
            for path in (*_scripts(generator), *_modules(source)):
                content.update(f"{path.name}\0{file_sha256(path)}\0".encode())
            make = partial(self._generate, case, generator)
        elif case.input.imported:
            if toolchain:
                root = toolchain.identity
            else:
                root = ""
            parts = (
                *self._onnx.versions(),
                file_sha256(source),
                root,
                self._onnx.identity(importer),
            )
            content.update("\0".join(parts).encode())
            make = partial(
                self._import_model,
                case,
                content.hexdigest(),
                importer,
                toolchain.revision.name if toolchain else "",
            )
        else:
            return Prepared(source, file_sha256(source))
        return self._kept.get(
            self._folder / f"{content.hexdigest()}.mlir", make, fresh=self._fresh
        )

    def _generate(
        self, case: Case, generator: tuple[str, ...], scratch: Path
    ) -> Path | NoInput:
        target = scratch / "made.mlir"
        words = [
            word for name, value in case.input.args for word in (f"--{name}", value)
        ]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        argv = [*generator, str(case.input.path), *words]
        execution = run(
            argv, case.limits, scratch, env=env, stdout_to=target, stop=self._stop
        )
        if execution.ok and regular_size(target):
            return target
        machine = machine_problem(execution)
        if machine and machine.cause is Cause.ENVIRONMENT:
            return NoInput(machine)
        if execution.ok:
            how = "it printed nothing"
        else:
            how = execution.ending_text(case.limits)
        problem = f"the generator {case.input.path.name} failed: {how}"
        last = execution.stderr.last_line[:300]
        if last:
            problem += f": {last}"
        return NoInput(recipe_mistake(problem))

    def _import_model(
        self, case: Case, key: str, importer: Path | None, toolchain: str, scratch: Path
    ) -> Path | NoInput:
        target = scratch / "made.mlir"
        failed = self._cache.find(key)
        if failed:
            return NoInput(judge_import(failed.execution, rules_of(case)), cached=True)
        execution = self._onnx.run(case, importer, target)
        if execution.ok and regular_size(target):
            return target
        machine = machine_problem(execution)
        if machine:
            return NoInput(machine)
        if _is_broken(execution):
            last = execution.stderr.last_line[:300]
            return NoInput(recipe_mistake(f"no importer for ONNX runs here: {last}"))
        portable = replace(execution, argv=(*execution.argv[1:3], case.input.path.name))
        self._cache.add(Record(key, case.name, toolchain, portable))
        return NoInput(judge_import(execution, rules_of(case)))

    def obtain(self, artifacts: Iterable[Artifact]) -> NoAnswer | None:
        """Download or generate the missing files of a suite; return why the first one
        that cannot be obtained is missing, None if all are there.
        """
        for artifact in artifacts:
            if not is_unchanged(artifact.path):
                make = partial(self._obtain_artifact, artifact)
                made = self._kept.get(artifact.path, make)
                if isinstance(made, NoAnswer):
                    return made
            elif isinstance(artifact.source, str):
                note_use(artifact.path)
        return None

    def _obtain_artifact(self, artifact: Artifact, scratch: Path) -> Path | NoAnswer:
        target, source = scratch / artifact.path.name, artifact.source
        if isinstance(source, str):
            host = urlsplit(source).netloc
        else:
            host = ""
        if host in self._unreachable:
            problem = f"{source}: {self._unreachable[host]}"
            return NoAnswer(Cause.ENVIRONMENT, problem)
        try:
            if isinstance(source, str):
                self._download(source, target)
            else:
                source.write(target)
        except EnvironmentFailure as error:
            if host and not isinstance(error, Unobtainable):  # the host does not answer
                self._unreachable[host] = str(error)
            return NoAnswer(Cause.ENVIRONMENT, f"{source}: {error}")
        except ValueError as error:
            return recipe_mistake(str(error))
        return target


def _scripts(generator: tuple[str, ...]) -> Iterator[Path]:
    """Yield the scripts of triage that an interpreter runs a generator with."""
    yield from (Path(word) for word in generator[1:] if word.endswith(".py"))


def _modules(script: Path) -> Iterator[Path]:
    """Yield a script and the modules next to it whose names it mentions."""
    yield script
    with os.scandir(script.parent) as entries:
        names = sorted(
            entry.name
            for entry in entries
            if entry.name.endswith(".py") and entry.name != script.name
        )
    text = script.read_text("utf-8", "replace")
    yield from (
        script.parent / name for name in names if name.removesuffix(".py") in text
    )


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

        `others` returns where to look for an importer when that of a toolchain does not
        run, best first. `packages` installs what importers need and returns its folder,
        or None if it is installed next to this program.
        """
        self._importer = importer
        self._others = others
        self._stop = stop
        self._provide = packages
        self._running: dict[Path | None, AnsweringProcess] = {}
        self._broken: set[Path | None] = set()  # None: the one next to this program
        self._identities: dict[Path, str] = {}
        self._lock = threading.Lock()

    def versions(self) -> list[str]:
        """Return the versions of the packages that decide the result."""
        self._provide()
        return [package_version(package) for package in self._importer.packages]

    def identity(self, root: Path | None) -> str:
        """Return a text that changes with the importer below `root`."""
        if root is None:
            return ""
        if root not in self._identities:
            content = sha256()
            for path in sorted(
                chain.from_iterable(
                    root.glob(pattern) for pattern in self._importer.files
                )
            ):
                content.update(f"{path.name}\0".encode() + path.read_bytes())
            self._identities[root] = content.hexdigest()
        return self._identities[root]

    def run(self, case: Case, root: Path | None, target: Path) -> Execution:
        """Import a case's model with the importer below `root`, else with the first one
        that runs.
        """
        first: Execution | None = None
        for place in chain([root] if root else [], [None], self._others()):
            if place in self._broken:
                continue
            if self._import_quickly(case, place, target):
                return _IMPORTED
            execution = self._import_alone(case, place, target)
            if not _is_broken(execution):
                return execution
            self._broken.add(place)
            first = first or execution
        return first or self._import_alone(case, root, target)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._running:
                self._running.popitem()[1].close()

    def _path(self, root: Path | None) -> list[Path]:
        return [folder for folder in (root, self._provide()) if folder]

    def _import_alone(self, case: Case, root: Path | None, target: Path) -> Execution:
        """Import in a process of its own, whose execution has all facts."""
        argv = [
            sys.executable,
            "-m",
            self._importer.module,
            str(case.input.path),
            "-o",
            str(target),
        ]
        path = os.pathsep.join(map(str, self._path(root)))
        env = {**dict(case.env), **({"PYTHONPATH": path} if path else {})}
        return run(argv, case.limits, target.parent, env=env, stop=self._stop)

    def _import_quickly(self, case: Case, root: Path | None, target: Path) -> bool:
        """Import a small model in a process that imports many, since its start takes
        longer than an import. Return whether that worked.
        """
        if case.env or case.input.path.stat().st_size > _LARGEST:
            return False
        request = json.dumps([str(case.input.path), str(target)]).encode()
        with self._lock:
            python = self._running.pop(root, None)
            python = python or toolchain_python(
                "import", self._importer.module, self._path(root), self._stop
            )
            self._running[root] = python  # the last one used is the last one to end
            while len(self._running) > _PROCESSES:
                self._running.pop(next(iter(self._running))).close()
            return (
                python.ask(request, min(case.limits.timeout, _PATIENCE)) == b"+"
                and target.is_file()
            )


def _is_broken(execution: Execution) -> bool:
    """Return whether the importer does not run here, whatever the model: it, or a
    package of its version, is not there.
    """
    return not execution.ok and _IS_MISSING.search(execution.stderr.text) is not None


def package_version(package: str) -> str:
    """Return the version of an installed package, or `none`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
