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

from triage.compilers.base import SCRIPT_WORKER, Needs
from triage.compilers.interpreters import interpreter_folders
from triage.compilers.registry import onnx_family
from triage.execution.cache import Record, ResultCache
from triage.execution.judge import (
    NoTask,
    judge_import,
    machine_problem,
    recipe_mistake,
    recipe_mistakes,
    rules_of,
)
from triage.execution.reads import mentioned_by, surroundings
from triage.execution.task import Prepared, sealed_execution
from triage.model.case import Artifact, Case, InputKind
from triage.model.content import Address, file_sha256, regular_size
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Execution
from triage.model.outcome import MACHINE_CAUSES, Cause, Failed, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import assignments
from triage.processes.process import run
from triage.processes.sealing import Seal
from triage.toolchains.contents import state_digest
from triage.toolchains.home import (
    KeptKind,
    disk_errors,
    temporary_folder,
    write_whole,
)
from triage.toolchains.registry import ToolchainRegistry, recorded_rev

_CHECKSUM = ".sha256"  # suffix of the file with the checksum
# The same program prints the same input.
_SAME_OUTPUT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
# The importer's own OnnxImportError is about the model.
_IS_MISSING = re.compile(
    r"No module named|^ImportError\b|AttributeError: module 'onnx", re.MULTILINE
)
# bytes of a file of weights: those of a model with 8 billion parameters take 16 GiB
_LARGEST_DOWNLOAD = 32 << 30


class _ImportFailed(Exception):
    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self.execution = execution


@cache
def own_python() -> tuple[Path, ...]:
    """Return the folders of this program's own interpreter and its packages."""
    return interpreter_folders(Path(sys.executable))


@dataclass
class KeptFiles:
    """Makes files that are missing or damaged. Safe for several threads and
    processes.
    """

    _locks: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def get(self, target: Path, make: Callable[[Path], Path]) -> Prepared:
        """Return the file or folder at `target`, made if need be.

        `make` gets an empty folder and returns what it made there.
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
                    return Prepared(target, _put_in_place(make(scratch), target))


def _digest_if_intact(target: Path) -> str | None:
    """Return the digest of a kept file or folder if it is there and intact."""
    with suppress(OSError, ValueError):
        digest = _digest(target)
        if target.with_suffix(_CHECKSUM).read_text("utf-8") == digest:
            return digest
    return None


def _put_in_place(new: Path, target: Path) -> str:
    digest = _digest(new)
    if _digest_if_intact(target) == digest:
        return digest  # a sealed program may be about to open it
    # first, so that what is at `target` is intact as soon as it is there
    write_whole(target.with_suffix(_CHECKSUM), digest)
    try:
        new.replace(target)
    except OSError:
        if not new.is_dir():
            raise
        # something is there: of another process that was faster, or damaged
        if _digest_if_intact(target) is None:
            with suppress(FileNotFoundError):
                target.rename(new.with_name("damaged"))
            new.replace(target)
    return digest


def _digest(path: Path) -> str:
    if not path.is_dir():
        return file_sha256(path)
    lines = [f"{file.name} {file_sha256(file)}\n" for file in sorted(path.iterdir())]
    return sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
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
    is_importer: bool = False


@dataclass
class Inputs:
    """Prepares inputs in the home, again when they are damaged. Safe for several
    threads and processes.
    """

    registry: ToolchainRegistry
    cache: ResultCache
    """Keeps failed imports."""
    kept_files: KeptFiles = field(default_factory=KeptFiles)
    _prepared: dict[object, Prepared | NoAnswer | Failed] = field(default_factory=dict)

    def prepare(
        self, case: Case, toolchain: Toolchain, *, fresh: bool = False
    ) -> Prepared:
        """Return the file that the compiler reads for a case. Raises NoTask if there is
        none. fresh: repeat an import that failed.
        """
        if case.artifacts:
            self.obtain(case.artifacts)
        makers = []
        source = case.input.path
        if case.input.kind is InputKind.GENERATOR:
            makers.append(self._generator(case))
        if case.input.imported:
            makers.append(self._importer(toolchain))
        with recipe_mistakes():
            sources = [source]
            if makers:
                sources += [*case.reads, *mentioned_by(source)]
            state = state_digest(sources)
            memo = (
                fresh,
                case.input,
                case.limits,
                case.env,
                case.rules,
                state,
                *(maker.identity for maker in makers),
            )
            if memo not in self._prepared:
                try:
                    made = self._make(case, sources, state, makers, toolchain, fresh)
                    self._prepared[memo] = made
                except NoTask as error:
                    if error.outcome.cause in MACHINE_CAUSES:
                        raise
                    self._prepared[memo] = error.outcome
        prepared = self._prepared[memo]
        if isinstance(prepared, Prepared):
            return prepared
        raise NoTask(prepared)

    def input_of(self, case: Case, toolchain: Toolchain) -> Prepared | NoAnswer:
        """Return the file that the compiler reads for a case, or why no other task can
        use it.
        """
        try:
            return self.prepare(case, toolchain)
        except NoTask as error:
            return error.why

    # What makes an input

    def _generator(self, case: Case) -> _Maker:
        """Return what runs a generator: this program's interpreter or, for a family
        whose tools do, the newest toolchain.
        """
        words = self.registry.compilers[case.compiler].generator
        if words:
            toolchain = named_toolchain(
                self.registry, "latest", case, "that makes the program"
            )
            start = str(toolchain.program)
            identity = f"{toolchain.identity} {words}"
            reads = toolchain.reads
        else:
            start = sys.executable
            words = ("-P",)
            identity = self._identity_of_own_python
            reads = own_python()
        argv = (start, *words, str(SCRIPT_WORKER), "execute")
        return _Maker(identity, argv, (*reads, SCRIPT_WORKER), _SAME_OUTPUT)

    @cached_property
    def _identity_of_own_python(self) -> str:
        return self.registry.contents.identity(Needs((), Path(sys.executable)))

    def _importer(self, toolchain: Toolchain) -> _Maker:
        """Return the importer for ONNX of a toolchain."""
        tools = self.registry.compilers[toolchain.family].mlir_tools(toolchain)
        if tools is None:
            problem = f"{toolchain.revision.name} has no importer for ONNX"
            raise NoTask(NoAnswer(Cause.TOOLCHAIN, problem))
        identity = f"{self._identity_of_own_python} {toolchain.identity}"
        root = tools.python_root
        argv = (sys.executable, "-m", onnx_family().onnx_importer)
        env = {"PYTHONPATH": str(root)}
        return _Maker(identity, argv, (*own_python(), root), env, is_importer=True)

    def _make(
        self,
        case: Case,
        sources: Sequence[Path],
        state: str,
        makers: Sequence[_Maker],
        toolchain: Toolchain,
        fresh: bool,
    ) -> Prepared:
        source = case.input.path
        digest = self.registry.contents.digest
        if not makers:  # the compiler reads the file itself
            mentioned = tuple(mentioned_by(source))
            return Prepared(source, file_sha256(source), state, mentioned)
        parts = [
            f"{case.input.kind} {case.input.args} {case.limits}",
            *assignments(dict(case.env)),
            *surroundings((), uses_processor=False),
            *(f"{path.name} {digest(path)}" for path in sources),
            *(maker.identity for maker in makers),
        ]
        key = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

        def make(scratch: Path) -> Path:
            made = source
            for maker in makers:
                made = self._run(maker, case, made, sources, scratch)
            if state != state_digest(sources):
                problem = f"{source.name} changed while it was read"
                raise NoTask(NoAnswer(Cause.ENVIRONMENT, problem))
            return made

        target = self.registry.home.folder(KeptKind.INPUTS) / f"{key}.mlir"
        [execution] = self.cache.find_all(key)
        if fresh or execution is None or target.exists():
            try:
                return self.kept_files.get(target, make)
            except _ImportFailed as error:
                execution = error.execution
                revision = toolchain.revision.name
                self.cache.add(Record(key, case.name, revision, execution))
        raise NoTask(judge_import(execution, rules_of(case)))

    def _run(
        self,
        maker: _Maker,
        case: Case,
        source: Path,
        sources: Sequence[Path],
        scratch: Path,
    ) -> Path:
        """Return the file that is made. Raises NoTask or _ImportFailed."""
        target = scratch / "printed"
        printed: Path | None = target
        words: list[str] = []
        for name, value in case.input.args:
            words += [f"--{name}", value]
        if maker.is_importer:
            target = scratch / "imported"
            printed = None
            words = ["-o", str(target)]
        execution = sealed_execution(
            case,
            Seal((*maker.reads, *sources)),
            lambda seal: run(
                [*maker.argv, str(source), *words],
                case.limits,
                scratch,
                seal=seal,
                env={**maker.env, **dict(case.env)},
                stdout_to=printed,
                stop=self.registry.workspace.stop,
            ),
        )
        if execution.ok and regular_size(target):
            return target
        machine = machine_problem(execution)
        why = execution.stderr.last_line[:300]
        if maker.is_importer:
            if _IS_MISSING.search(execution.stderr.text):
                problem = f"the importer for ONNX does not run: {why}"
                if not re.search(r"\bonnx\b", why):  # the release lacks its own part
                    raise NoTask(NoAnswer(Cause.TOOLCHAIN, problem))
                raise recipe_mistake(
                    f"{problem}; `pip install 'iree-triage[onnx]'` adds what it needs"
                )
            if machine:
                raise NoTask(machine)
            raise _ImportFailed(execution)
        if machine and machine.cause is not Cause.TOOLCHAIN:
            raise NoTask(machine)
        how = execution.ending_text(case.limits)
        if execution.ok:
            how = "it printed nothing"
        reasons = ": ".join(filter(None, [how, why]))
        raise recipe_mistake(f"the generator {source.name} failed: {reasons}")

    # Files of suites

    def obtain(self, artifacts: Iterable[Artifact]) -> None:
        """Download or generate the missing files of a suite. Raises NoTask for the
        first one that cannot be obtained.
        """
        for artifact in artifacts:
            with recipe_mistakes():
                try:
                    self.kept_files.get(artifact.path, partial(self._obtain, artifact))
                except EnvironmentFailure as error:
                    raise NoTask(
                        NoAnswer(Cause.ENVIRONMENT, f"{artifact.source}: {error}")
                    ) from error

    def _obtain(self, artifact: Artifact, scratch: Path) -> Path:
        target = scratch / artifact.path.name
        source = artifact.source
        if isinstance(source, Address):
            from triage.toolchains.index import Web  # slow to import

            workspace = self.registry.workspace
            workspace.refuse_if_dry(f"download {source}")
            Web(workspace).download(source, target, target.name, _LARGEST_DOWNLOAD)
        else:
            source.write(target)
        return target


def named_toolchain(
    registry: ToolchainRegistry, rev: str, case: Case, purpose: str
) -> Toolchain:
    """Return the toolchain that a recipe names, which is a release or a nightly. Raises
    NoTask if it cannot be obtained; `purpose` says there which one it is.
    """
    try:
        text = recorded_rev(rev.removeprefix(f"{case.compiler}:"))
        return registry.obtain(registry.resolve(text, case.compiler))
    except TriageError as error:
        problem = f"cannot obtain the toolchain {purpose}: {error}"
        raise NoTask(NoAnswer(Cause.TOOLCHAIN, problem)) from error
