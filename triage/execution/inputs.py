"""Prepare the files that a task reads, once for each content: generators, ONNX imports,
and the files that suites refer to.
"""

from __future__ import annotations

import codecs
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from triage.classify.log import decoded, text_encoding
from triage.compilers.base import ModelImporter, Needs
from triage.compilers.interpreters import prefixes_of
from triage.compilers.invocation import MlirTools
from triage.execution.cache import ResultCache
from triage.execution.files import (
    KeptFiles,
    Prepared,
    is_unchanged,
    note_use,
)
from triage.execution.judge import judge_import, rules_of
from triage.execution.machine_problem import machine_problem
from triage.execution.reads import (
    mentioned_by,
    surroundings,
    undeclared,
    what_was_refused,
)
from triage.execution.record import Record
from triage.model.address import Address
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Execution
from triage.model.foreign_file import regular_size
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.process import run
from triage.processes.sealing import Seal, is_sealing
from triage.toolchains.contents import Contents, file_state

# a URL and the file to write; EnvironmentFailure when it cannot be downloaded
Download = Callable[[Address, Path], None]

_RUNNER = Path(__file__).with_name("generator_runner.py")
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


@dataclass(frozen=True, slots=True)
class GeneratorProgram:
    """What runs a generator."""

    argv: tuple[str, ...]
    reads: tuple[Path, ...]
    identity: str

    @classmethod
    def own(cls, contents: Contents) -> GeneratorProgram:
        """Return this program's own interpreter."""
        identity = contents.identity(Needs((), Path(sys.executable)))
        return cls((sys.executable, "-P"), own_python(), identity)


@cache
def own_python() -> tuple[Path, ...]:
    """Return the folders of this program's own interpreter and its packages."""
    return prefixes_of(Path(sys.executable))


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
        contents: Contents,
        download: Download,
    ) -> None:
        """Prepare nothing yet. If `fresh`, every input is prepared again, once. `cache`
        keeps failed imports.
        """
        self._folder, self._cache, self._stop, self._fresh = folder, cache, stop, fresh
        self._onnx, self._download, self._kept = onnx, download, KeptFiles()
        self._contents = contents
        self._prepared: dict[str, Prepared | NoInput] = {}
        # host -> reason, so that a suite waits for a dead host once
        self._unreachable: dict[str, str] = {}

    def prepare(
        self,
        case: Case,
        toolchain: Toolchain | None,
        tools: MlirTools | None,
        generator: GeneratorProgram,
    ) -> Prepared | NoInput:
        """Return the file for a case, or why there is none. `toolchain` imports an ONNX
        model, with its `tools`.
        """
        missing = self.obtain(case.artifacts)
        if missing:
            return NoInput(missing)
        if case.input.imported:
            own = f"{toolchain.identity if toolchain else ''}\0{case.rules}"
        else:
            own = ""
        try:
            sources = [case.input.path, *case.reads]
            if case.input.is_made:
                sources += mentioned_by(case.input.path)
            state = file_state(sources)
            memo = (
                f"{case.input.path}\0{case.input.args}\0{settings(dict(case.env))}"
                f"\0{own}\0{generator}\0{state}"
            )
            if memo not in self._prepared:
                prepared = self._make(case, sources, toolchain, tools, generator)
                if state != file_state(sources):
                    problem = f"{case.input.path.name} changed while it was read"
                    return NoInput(NoAnswer(Cause.ENVIRONMENT, problem))
                self._prepared[memo] = prepared
            return self._prepared[memo]
        except OSError as error:
            problem = f"{error.filename or case.input.path}: {error.strerror}"
            return NoInput(recipe_mistake(problem))

    def _make(
        self,
        case: Case,
        sources: Sequence[Path],
        toolchain: Toolchain | None,
        tools: MlirTools | None,
        generator: GeneratorProgram,
    ) -> Prepared | NoInput:
        source, kind = case.input.path, case.input.kind
        content = sha256(f"{kind}\0{case.input.args}\0".encode())
        content.update(
            "".join(f"env {setting}\0" for setting in settings(dict(case.env))).encode(
                "utf-8", "surrogateescape"
            )
        )
        make: Callable[[Path], Path | NoInput]
        for part in surroundings((), uses_processor=False):
            content.update(f"{part}\0".encode())
        is_marked = kind is InputKind.MLIR and _is_marked(source)
        if not (case.input.is_made or is_marked):
            state = file_state([source])
            return Prepared(source, file_sha256(source), state)
        for path in sources:
            digest = self._contents.digest(path)
            content.update(f"{path.name}\0{digest}\0".encode())
        if case.input.imported:
            identity = toolchain.identity if toolchain else ""
            content.update("\0".join([*self._onnx.versions(), identity]).encode())
            make = partial(
                self._import_model,
                case,
                sources,
                content.hexdigest(),
                toolchain,
                tools,
            )
        elif is_marked:
            make = partial(_write_decoded, source)
        else:
            content.update(generator.identity.encode())
            make = partial(self._generate, case, sources, generator)
        return self._kept.get(
            self._folder / f"{content.hexdigest()}.mlir", make, fresh=self._fresh
        )

    def _generate(
        self,
        case: Case,
        sources: Sequence[Path],
        generator: GeneratorProgram,
        scratch: Path,
    ) -> Path | NoInput:
        target = scratch / "made.mlir"
        words = [
            word for name, value in case.input.args for word in (f"--{name}", value)
        ]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        interpreter, *options = generator.argv
        # options of the interpreter stand before the script, scripts of triage after it
        flags = [word for word in options if word.startswith("-")]
        scripts = [word for word in options if not word.startswith("-")]
        argv = [interpreter, *flags, str(_RUNNER), *scripts]
        argv += [str(case.input.path), *words]
        seal = Seal((*generator.reads, *sources, _RUNNER))
        execution = run(
            argv,
            case.limits,
            scratch,
            seal=seal,
            env=env,
            stdout_to=target,
            stop=self._stop,
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
        refused = what_was_refused(execution, seal)
        if refused and is_sealing():
            return NoInput(undeclared(refused))
        problem = f"the generator {case.input.path.name} failed: {how}"
        last = execution.stderr.last_line[:300]
        if last:
            problem += f": {last}"
        return NoInput(recipe_mistake(problem))

    def _import_model(
        self,
        case: Case,
        sources: Sequence[Path],
        key: str,
        toolchain: Toolchain | None,
        tools: MlirTools | None,
        scratch: Path,
    ) -> Path | NoInput:
        target = scratch / "made.mlir"
        failed = self._cache.find(key)
        if failed:
            return NoInput(judge_import(failed.execution, rules_of(case)), cached=True)
        execution = self._onnx.run(case, sources, tools, target)
        if execution.ok and regular_size(target):
            return target
        machine = machine_problem(execution)
        if machine:
            return NoInput(machine)
        if _is_broken(execution):
            last = execution.stderr.last_line[:300]
            return NoInput(
                recipe_mistake(
                    f"no importer for ONNX runs here: {last}; `pip install "
                    "'iree-triage[onnx]'` adds what it needs"
                )
            )
        portable = replace(execution, argv=(*execution.argv[1:3], case.input.path.name))
        name = toolchain.revision.name if toolchain else ""
        self._cache.add(Record(key, case.name, name, portable))
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
            elif isinstance(artifact.source, Address):
                note_use(artifact.path)
        return None

    def _obtain_artifact(self, artifact: Artifact, scratch: Path) -> Path | NoAnswer:
        target, source = scratch / artifact.path.name, artifact.source
        if isinstance(source, Address):
            host = urlsplit(source).netloc
        else:
            host = ""
        if host in self._unreachable:
            problem = f"{source}: {self._unreachable[host]}"
            return NoAnswer(Cause.ENVIRONMENT, problem)
        try:
            if isinstance(source, Address):
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


def _is_marked(source: Path) -> bool:
    """Return whether a text begins with a byte order mark or is not in UTF-8. Compilers
    read neither.
    """
    with source.open("rb") as file:
        head = file.read(4)
    return head.startswith(codecs.BOM_UTF8) or text_encoding(head) != "utf-8-sig"


def _write_decoded(source: Path, scratch: Path) -> Path:
    target = scratch / "made.mlir"
    target.write_text(decoded(source.read_bytes()), "utf-8")
    return target


class OnnxImporters:
    """The importers of all toolchains. Safe for several threads."""

    def __init__(self, importer: ModelImporter, stop: threading.Event) -> None:
        """Start nothing yet."""
        self._importer = importer
        self._stop = stop
        self._broken: set[Path | None] = set()  # None: the one next to this program

    def versions(self) -> list[str]:
        """Return the versions of the packages that decide the result."""
        return [package_version(package) for package in self._importer.packages]

    def run(
        self,
        case: Case,
        sources: Sequence[Path],
        tools: MlirTools | None,
        target: Path,
    ) -> Execution:
        """Import a case's model with the importer of a toolchain, or if that does not
        run, with the one next to this program. `sources` are the files that it may
        read.
        """
        root = tools.python_root if tools else None
        first: Execution | None = None
        for place in dict.fromkeys((root, None)):
            if place in self._broken:
                continue
            execution = self._import_alone(case, sources, place, target)
            if not _is_broken(execution):
                return execution
            self._broken.add(place)
            first = first or execution
        return first or self._import_alone(case, sources, root, target)

    def _import_alone(
        self, case: Case, sources: Sequence[Path], root: Path | None, target: Path
    ) -> Execution:
        argv = [
            sys.executable,
            "-m",
            self._importer.module,
            str(case.input.path),
            "-o",
            str(target),
        ]
        env, reads = dict(case.env), [*own_python(), *sources]
        if root:
            env["PYTHONPATH"] = str(root)
            reads.append(root)
        seal = Seal(tuple(reads))
        return run(
            argv, case.limits, target.parent, seal=seal, env=env, stop=self._stop
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
