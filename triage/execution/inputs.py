"""Make the files that a task reads, once for each content: generated programs, ONNX
imports, and the files that suites refer to. Next to each one lies its checksum.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from triage.compilers.base import SCRIPT_WORKER, Compiler, Needs
from triage.compilers.interpreters import prefixes_of
from triage.compilers.registry import onnx_family
from triage.execution.cache import Record, ResultCache
from triage.execution.judge import (
    judge_import,
    machine_problem,
    rules_of,
    why_unusable,
)
from triage.execution.reads import (
    mentioned_by,
    surroundings,
    undeclared_read,
    what_was_refused,
)
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import Address, file_sha256, regular_size
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Execution
from triage.model.outcome import OF_MACHINE, Cause, Failed, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.process import run
from triage.processes.sealing import Seal, is_sealing
from triage.toolchains.contents import file_state
from triage.toolchains.home import (
    KeptKind,
    disk_errors,
    temporary_folder,
    write_whole,
)
from triage.toolchains.registry import ToolchainRegistry, recorded_rev

T = TypeVar("T")
_CHECKSUM = ".sha256"  # suffix of the file with the checksum
# The same program prints the same input.
_SAME = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
# The importer's own OnnxImportError is about the model.
_IS_MISSING = re.compile(
    r"No module named|^ImportError\b|AttributeError: module 'onnx", re.MULTILINE
)
# bytes of a file of weights: those of a model with 8 billion parameters take 16 GiB
_LARGEST_DOWNLOAD = 32 << 30

Missing = NoAnswer | Failed
"""Why the compiler has nothing to read."""


def recipe_mistake(reason: str) -> NoAnswer:
    """Return the answer for a mistake of the recipe."""
    return NoAnswer(Cause.RECIPE, reason)


@cache
def own_python() -> tuple[Path, ...]:
    """Return the folders of this program's own interpreter and its packages."""
    return prefixes_of(Path(sys.executable))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file or folder to use, and the SHA-256 of its bytes."""

    path: Path
    digest: str
    state: str = ""
    """What changes when it is written, if others may write it."""
    mentioned: tuple[Path, ...] = ()
    """The files next to it that it mentions."""


@dataclass
class KeptFiles:
    """Makes files that are missing or damaged. Safe for several threads and
    processes.
    """

    _locks: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def get(self, target: Path, make: Callable[[Path], Path | T]) -> Prepared | T:
        """Return the file or folder at `target`, made if need be.

        `make` gets an empty folder and returns what it made there. If it returns no
        path, nothing is kept and that value is returned.
        """
        with self._locks[str(target)]:
            digest = _digest_if_intact(target)
            if digest is not None:
                with suppress(OSError):  # the home cannot be written
                    os.utime(target.with_suffix(_CHECKSUM))  # it was used now
                return Prepared(target, digest)
            with disk_errors("keep a file"):
                target.parent.mkdir(parents=True, exist_ok=True)
                with temporary_folder(target.parent, prefix=".making-") as scratch:
                    made = make(scratch)
                    if isinstance(made, Path):
                        return Prepared(target, _keep(made, target))
                    return made


def _digest_if_intact(target: Path) -> str | None:
    """Return the digest of a kept file or folder if it is there and intact."""
    with suppress(OSError, ValueError):
        digest = _digest(target)
        if target.with_suffix(_CHECKSUM).read_text("utf-8") == digest:
            return digest
    return None


def _keep(made: Path, target: Path) -> str:
    digest = _digest(made)
    if _digest_if_intact(target) == digest:
        return digest  # a sealed program may be about to open it
    # first, so that what is at `target` is intact as soon as it is there
    write_whole(target.with_suffix(_CHECKSUM), digest)
    try:
        made.replace(target)
    except OSError:
        if not made.is_dir():
            raise
        # something is there: of another process that was faster, or damaged
        if _digest_if_intact(target) is None:
            with suppress(FileNotFoundError):
                target.rename(made.with_name("damaged"))
            made.replace(target)
    return digest


def _digest(path: Path) -> str:
    if not path.is_dir():
        return file_sha256(path)
    lines = [f"{file.name} {file_sha256(file)}\n" for file in sorted(path.iterdir())]
    return sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Maker:
    """A program that makes a file of a source file: a generator prints it, an importer
    writes it to the file that `-o` names.
    """

    identity: str
    """A digest of all that makes it, besides the sources."""
    argv: tuple[str, ...]
    """Its command line up to the source."""
    reads: tuple[Path, ...]
    env: Mapping[str, str]
    imports: bool = False


@dataclass
class Inputs:
    """Prepares inputs in the home, again when they are damaged. Safe for several
    threads and processes.
    """

    registry: ToolchainRegistry
    compilers: Mapping[str, Compiler]
    cache: ResultCache
    """Keeps failed imports."""
    stop: threading.Event
    kept: KeptFiles = field(default_factory=KeptFiles)
    _prepared: dict[object, Prepared | Missing] = field(default_factory=dict)

    def prepare(self, case: Case, toolchain: Toolchain) -> Prepared | Missing:
        """Return the file that the compiler reads for a case, or why there is none."""
        missing, source = self.obtain(case.artifacts), case.input.path
        if missing:
            return missing
        try:
            makers = self._makers(case, toolchain)
            if isinstance(makers, NoAnswer):
                return makers
            sources = [source]
            if makers:
                sources += [*case.reads, *mentioned_by(source)]
            state = file_state(sources)
            identities = [maker.identity for maker in makers]
            memo = (case.input, case.env, case.rules, state, *identities)
            prepared = self._prepared.get(memo)
            if prepared:
                return prepared
            if makers:
                prepared = self._make(case, sources, makers, toolchain)
            else:
                mentioned = tuple(mentioned_by(source))
                prepared = Prepared(source, file_sha256(source), state, mentioned)
            if state != file_state(sources):
                problem = f"{source.name} changed while it was read"
                return NoAnswer(Cause.ENVIRONMENT, problem)
        except OSError as error:
            return recipe_mistake(f"{error.filename or source}: {error.strerror}")
        if not isinstance(prepared, NoAnswer) or prepared.cause not in OF_MACHINE:
            self._prepared[memo] = prepared
        return prepared

    def input_of(self, case: Case, toolchain: Toolchain) -> Prepared | NoAnswer:
        """Return the file that the compiler reads for a case, or why no other task can
        use it.
        """
        prepared = self.prepare(case, toolchain)
        if isinstance(prepared, Prepared):
            return prepared
        return why_unusable(prepared)

    # What makes an input

    def _makers(self, case: Case, toolchain: Toolchain) -> list[_Maker] | NoAnswer:
        """Return what makes the input of a case, one after the other; nothing if the
        compiler reads the file itself.
        """
        makers = []
        if case.input.kind is InputKind.GENERATOR:
            generator = self._generator(case)
            if isinstance(generator, NoAnswer):
                return generator
            makers.append(generator)
        if case.input.imported:
            importer = self._importer(toolchain)
            if isinstance(importer, NoAnswer):
                return importer
            makers.append(importer)
        return makers

    def _generator(self, case: Case) -> _Maker | NoAnswer:
        """Return what runs a generator: this program's interpreter or, for a family
        whose tools do, the newest toolchain.
        """
        words = self.compilers[case.compiler].generator
        if words:
            try:
                toolchain = named_toolchain(self.registry, "latest", case)
            except TriageError as error:
                problem = "cannot obtain the toolchain that makes the program"
                return NoAnswer(Cause.TOOLCHAIN, f"{problem}: {error}")
            start = str(toolchain.program)
            identity, reads = f"{toolchain.identity} {words}", toolchain.reads
        else:
            start, words = sys.executable, ("-P",)
            identity, reads = self._identity_of_own_python, own_python()
        argv = (start, *words, str(SCRIPT_WORKER), "execute")
        return _Maker(identity, argv, (*reads, SCRIPT_WORKER), _SAME)

    @cached_property
    def _identity_of_own_python(self) -> str:
        return self.registry.contents.identity(Needs((), Path(sys.executable)))

    def _importer(self, toolchain: Toolchain) -> _Maker | NoAnswer:
        """Return the importer for ONNX of a toolchain."""
        importer = onnx_family().onnx_importer
        tools = self.compilers[toolchain.family].mlir_tools(toolchain)
        if importer is None or tools is None:
            problem = f"{toolchain.revision.name} has no importer for ONNX"
            return NoAnswer(Cause.TOOLCHAIN, problem)
        packages = map(package_version, importer.packages)
        identity = " ".join([*packages, toolchain.identity])
        root, argv = tools.python_root, (sys.executable, "-m", importer.module)
        env = {"PYTHONPATH": str(root)}
        return _Maker(identity, argv, (*own_python(), root), env, imports=True)

    def _make(
        self,
        case: Case,
        sources: Sequence[Path],
        makers: Sequence[_Maker],
        toolchain: Toolchain,
    ) -> Prepared | Missing:
        digest = self.registry.contents.digest
        parts = [
            f"{case.input.kind} {case.input.args}",
            *settings(dict(case.env)),
            *surroundings((), uses_processor=False),
            *(f"{path.name} {digest(path)}" for path in sources),
            *(maker.identity for maker in makers),
        ]
        key = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

        def make(scratch: Path) -> Path | Missing | Execution:
            made: Path | Missing | Execution = case.input.path
            for maker in makers:
                if isinstance(made, Path):
                    made = self._run(maker, case, made, sources, scratch)
            return made

        [execution] = self.cache.find_all(key)
        if execution is None:
            target = self.registry.home.folder(KeptKind.INPUTS) / f"{key}.mlir"
            answer: Prepared | Missing | Execution
            answer = self.kept.get(target, make)
            if not isinstance(answer, Execution):
                return answer
            execution, revision = answer, toolchain.revision.name
            self.cache.add(Record(key, case.name, revision, execution))
        return judge_import(execution, rules_of(case))

    def _run(
        self,
        maker: _Maker,
        case: Case,
        source: Path,
        sources: Sequence[Path],
        scratch: Path,
    ) -> Path | Missing | Execution:
        """Return the file that is made; for an import that failed, its execution."""
        if maker.imports:
            target, printed = scratch / "imported", None
            words = ["-o", str(target)]
        else:
            target = printed = scratch / "printed"
            words = []
            for name, value in case.input.args:
                words += [f"--{name}", value]
        seal = Seal((*maker.reads, *sources))
        execution = run(
            [*maker.argv, str(source), *words],
            case.limits,
            scratch,
            seal=seal,
            env={**maker.env, **dict(case.env)},
            stdout_to=printed,
            stop=self.stop,
        )
        if execution.ok and regular_size(target):
            return target
        why = execution.stderr.last_line[:300]
        if maker.imports:
            if not _IS_MISSING.search(execution.stderr.text):
                return machine_problem(execution) or execution
            advice = "`pip install 'iree-triage[onnx]'` adds what it needs"
            problem = f"the importer for ONNX does not run: {why}; {advice}"
            return recipe_mistake(problem)
        machine = machine_problem(execution)
        if machine and machine.cause is Cause.ENVIRONMENT:
            return machine
        refused = what_was_refused(execution, seal)
        if refused and is_sealing():
            return undeclared_read(refused)
        how = execution.ending_text(case.limits)
        if execution.ok:
            how = "it printed nothing"
        reasons = ": ".join(filter(None, [how, why]))
        return recipe_mistake(f"the generator {source.name} failed: {reasons}")

    # Files of suites

    def obtain(self, artifacts: Iterable[Artifact]) -> NoAnswer | None:
        """Download or generate the missing files of a suite; return why the first one
        that cannot be obtained is missing, None if all are there.
        """
        for artifact in artifacts:
            try:
                make = partial(self._obtain, artifact)
                self.kept.get(artifact.path, make)
            except EnvironmentFailure as error:
                return NoAnswer(Cause.ENVIRONMENT, f"{artifact.source}: {error}")
            except ValueError as error:
                return recipe_mistake(str(error))
        return None

    def _obtain(self, artifact: Artifact, scratch: Path) -> Path:
        target, source = scratch / artifact.path.name, artifact.source
        if isinstance(source, Address):
            from triage.toolchains.web import Web  # slow to import

            workspace = self.registry.workspace
            workspace.refuse_if_dry(f"download {source}")
            Web(workspace).download(source, target, target.name, _LARGEST_DOWNLOAD)
        else:
            source.write(target)
        return target


def named_toolchain(registry: ToolchainRegistry, rev: str, case: Case) -> Toolchain:
    """Return the toolchain that a recipe names, which is a release or a nightly."""
    text = recorded_rev(rev.removeprefix(f"{case.compiler}:"))
    return registry.obtain(registry.resolve(text, case.compiler))


def package_version(package: str) -> str:
    """Return the version of an installed package, or `none`."""
    from importlib import metadata  # slow to import

    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return "none"
