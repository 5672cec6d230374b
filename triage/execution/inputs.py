"""Prepare the files that a task reads, once for each content: generators, ONNX imports,
and the files that suites refer to.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from hashlib import sha256
from pathlib import Path

from triage.compilers.base import SCRIPT_RUNNER, Compiler, Needs
from triage.compilers.interpreters import prefixes_of
from triage.compilers.registry import onnx_family
from triage.execution.cache import Record, ResultCache
from triage.execution.files import KeptFiles, Prepared
from triage.execution.judge import judge_import, rules_of
from triage.execution.machine_problem import machine_problem
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
from triage.toolchains.home import KeptKind
from triage.toolchains.registry import ToolchainRegistry, recorded_rev

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
Made = Path | Missing | Execution
"""A file, why there is none, or the execution of an import that failed."""


def recipe_mistake(reason: str) -> NoAnswer:
    """Return the answer for a mistake of the recipe."""
    return NoAnswer(Cause.RECIPE, reason)


@cache
def own_python() -> tuple[Path, ...]:
    """Return the folders of this program's own interpreter and its packages."""
    return prefixes_of(Path(sys.executable))


@dataclass(frozen=True, slots=True)
class _Maker:
    """What makes the input of a compiler from its source files."""

    identity: str
    """A digest of all that makes it, besides the source files."""
    make: Callable[[Sequence[Path], Path], Made]
    """Gets the source files and an empty folder."""


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
    _kept: KeptFiles = field(default_factory=KeptFiles)
    _prepared: dict[object, Prepared | Missing] = field(default_factory=dict)

    def prepare(self, case: Case, toolchain: Toolchain) -> Prepared | Missing:
        """Return the file that the compiler reads for a case, or why there is none."""
        missing, source = self.obtain(case.artifacts), case.input.path
        if missing:
            return missing
        try:
            maker = self._maker_of(case, toolchain)
            if isinstance(maker, NoAnswer):
                return maker
            sources, identity = [source], ""
            if maker:
                sources += [*case.reads, *mentioned_by(source)]
                identity = maker.identity
            state = file_state(sources)
            memo = (case.input, case.env, case.rules, identity, state)
            prepared = self._prepared.get(memo)
            if prepared:
                return prepared
            if maker:
                prepared = self._make(case, sources, maker, toolchain)
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

    def _maker_of(self, case: Case, toolchain: Toolchain) -> _Maker | NoAnswer | None:
        """Return what makes the input of a case; None if the compiler reads the file
        itself.
        """
        kind = case.input.kind
        if kind is InputKind.GENERATOR:
            generator = self._generator(case)
            if not case.input.imported or isinstance(generator, NoAnswer):
                return generator
            importer = self._importer(case, toolchain)
            if isinstance(importer, NoAnswer):
                return importer
            return _generate_then_import(generator, importer)
        if case.input.imported:
            return self._importer(case, toolchain)
        return None

    def _make(
        self,
        case: Case,
        sources: Sequence[Path],
        maker: _Maker,
        toolchain: Toolchain,
    ) -> Prepared | Missing:
        digest = self.registry.contents.digest
        parts = [
            f"{case.input.kind} {case.input.args}",
            *settings(dict(case.env)),
            *surroundings((), uses_processor=False),
            *(f"{path.name} {digest(path)}" for path in sources),
            maker.identity,
        ]
        key = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
        target = self.registry.home.folder(KeptKind.INPUTS) / f"{key}.mlir"
        record = self.cache.find(key)
        if record is None:
            answer: Prepared | Missing | Execution
            make = partial(maker.make, sources)
            answer = self._kept.get(target, make)
            if not isinstance(answer, Execution):
                return answer
            record = Record(key, case.name, toolchain.revision.name, answer)
            self.cache.add(record)
        return judge_import(record.execution, rules_of(case))

    # Generators

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
            argv = (str(toolchain.program), *words, str(SCRIPT_RUNNER))
            identity, reads = f"{toolchain.identity} {words}", toolchain.reads
        else:
            argv = (sys.executable, "-P", str(SCRIPT_RUNNER))
            identity, reads = self._identity_of_own_python, own_python()
        return _Maker(identity, partial(self._generate, case, argv, reads))

    @cached_property
    def _identity_of_own_python(self) -> str:
        return self.registry.contents.identity(Needs((), Path(sys.executable)))

    def _generate(
        self,
        case: Case,
        argv: Sequence[str],
        reads: Sequence[Path],
        sources: Sequence[Path],
        scratch: Path,
    ) -> Path | Missing:
        target, source = scratch / "made.mlir", case.input.path
        words = [str(source)]
        for name, value in case.input.args:
            words += [f"--{name}", value]
        seal = Seal((*reads, *sources, SCRIPT_RUNNER))
        execution = run(
            [*argv, *words],
            case.limits,
            scratch,
            seal=seal,
            env={**_SAME, **dict(case.env)},
            stdout_to=target,
            stop=self.stop,
        )
        if execution.ok and regular_size(target):
            return target
        machine = machine_problem(execution)
        if machine and machine.cause is Cause.ENVIRONMENT:
            return machine
        refused = what_was_refused(execution, seal)
        if refused and is_sealing():
            return undeclared_read(refused)
        how = execution.ending_text(case.limits)
        if execution.ok:
            how = "it printed nothing"
        reasons = filter(None, [how, execution.stderr.last_line[:300]])
        return recipe_mistake(
            f"the generator {source.name} failed: {': '.join(reasons)}"
        )

    # ONNX

    def _importer(self, case: Case, toolchain: Toolchain) -> _Maker | NoAnswer:
        """Return the importer of a toolchain."""
        importer = onnx_family().onnx_importer
        tools = self.compilers[toolchain.family].mlir_tools(toolchain)
        if importer is None or tools is None:
            problem = f"{toolchain.revision.name} has no importer for ONNX"
            return NoAnswer(Cause.TOOLCHAIN, problem)
        parts = [package_version(package) for package in importer.packages]
        identity = " ".join([*parts, toolchain.identity])
        root = tools.python_root
        return _Maker(identity, partial(self._import, case, importer.module, root))

    def _import(
        self,
        case: Case,
        module: str,
        root: Path,
        sources: Sequence[Path],
        scratch: Path,
    ) -> Path | NoAnswer | Execution:
        """Import a model with a module in a folder."""
        target = scratch / "made.mlir"
        execution = run(
            [sys.executable, "-m", module, str(sources[0]), "-o", str(target)],
            case.limits,
            scratch,
            seal=Seal((*own_python(), *sources, root)),
            env={**dict(case.env), "PYTHONPATH": str(root)},
            stop=self.stop,
        )
        if execution.ok and regular_size(target):
            return target
        if not _IS_MISSING.search(execution.stderr.text):
            return machine_problem(execution) or execution
        why = execution.stderr.last_line[:300]
        advice = "`pip install 'iree-triage[onnx]'` adds what it needs"
        return recipe_mistake(f"the importer for ONNX does not run: {why}; {advice}")

    # Files of suites

    def obtain(self, artifacts: Iterable[Artifact]) -> NoAnswer | None:
        """Download or generate the missing files of a suite; return why the first one
        that cannot be obtained is missing, None if all are there.
        """
        for artifact in artifacts:
            try:
                make = partial(self._obtain, artifact)
                self._kept.get(artifact.path, make)
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


def _generate_then_import(generator: _Maker, importer: _Maker) -> _Maker:
    """Return what imports the model that a generator prints."""

    def make(sources: Sequence[Path], scratch: Path) -> Made:
        printed = generator.make(sources, scratch)
        if not isinstance(printed, Path):
            return printed
        model = printed.rename(printed.with_suffix(".onnx"))
        return importer.make([model], scratch)

    return _Maker(f"{generator.identity} {importer.identity}", make)


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
