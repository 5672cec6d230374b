"""Prepare the files that a task reads, once for each content: generators, ONNX imports,
and the files that suites refer to.
"""

from __future__ import annotations

import codecs
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from triage.classify.log import decoded, text_encoding
from triage.compilers.base import Compiler, ModelImporter, Needs
from triage.compilers.interpreters import prefixes_of
from triage.compilers.registry import onnx_family
from triage.execution.cache import Record, ResultCache
from triage.execution.files import KeptFiles, Prepared, is_unchanged, note_use
from triage.execution.judge import judge_import, rules_of
from triage.execution.machine_problem import machine_problem
from triage.execution.reads import (
    mentioned_by,
    surroundings,
    undeclared,
    what_was_refused,
)
from triage.model.address import Address
from triage.model.case import OWN, Artifact, Case, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, TriageError, Unobtainable
from triage.model.execution import Execution
from triage.model.foreign_file import regular_size
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.process import run
from triage.processes.sealing import Seal, is_sealing
from triage.toolchains.contents import file_state
from triage.toolchains.home import KeptKind, Workspace
from triage.toolchains.registry import ToolchainRegistry, recorded_rev

_RUNNER = Path(__file__).with_name("generator_runner.py")
# The importer's own OnnxImportError is about the model.
_IS_MISSING = re.compile(
    r"No module named|^ImportError\b|AttributeError: module 'onnx", re.MULTILINE
)
# bytes of a file of weights: those of a model with 8 billion parameters take 16 GiB
_LARGEST_DOWNLOAD = 32 << 30


@dataclass(frozen=True, slots=True)
class NoInput:
    """Why the compiler has nothing to read."""

    outcome: NoAnswer | Failed
    cached: bool = False
    """The cache knew it."""

    @property
    def reason(self) -> NoAnswer:
        """Why there is nothing to compile; a failed import is a mistake of the recipe
        then.
        """
        if isinstance(self.outcome, NoAnswer):
            return self.outcome
        failure = self.outcome.failure
        problem = f"the model cannot be imported: {failure.headline}"
        return NoAnswer(Cause.RECIPE, problem, failure)


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
    make: Callable[[Sequence[Path], str, Path], Path | NoInput]
    """Gets the source files, their key, and an empty folder."""


class Inputs:
    """Prepares inputs in the home, again when they are damaged. Safe for several
    threads and processes.
    """

    def __init__(
        self,
        registry: ToolchainRegistry,
        compilers: Mapping[str, Compiler],
        cache: ResultCache,
        stop: threading.Event,
        *,
        fresh: bool = False,
    ) -> None:
        """Prepare nothing yet. If `fresh`, every input is prepared again, once. `cache`
        keeps failed imports.
        """
        self._registry, self._compilers = registry, compilers
        self._cache, self._stop, self._fresh = cache, stop, fresh
        self._kept = KeptFiles()
        self._prepared: dict[str, Prepared | NoInput] = {}
        # host -> reason, so that a suite waits for a dead host once
        self._unreachable: dict[str, str] = {}

    def prepare(self, case: Case, toolchain: Toolchain | None) -> Prepared | NoInput:
        """Return the file that the compiler reads for a case, or why there is none.
        `toolchain` imports an ONNX model.
        """
        missing = self.obtain(case.artifacts)
        if missing:
            return NoInput(missing)
        try:
            maker = self._maker_of(case, toolchain)
            if isinstance(maker, NoAnswer):
                return NoInput(maker)
            sources = [case.input.path, *case.reads]
            if case.input.is_made:
                sources += mentioned_by(case.input.path)
            state = file_state(sources)
            identity = maker.identity if maker else None
            memo = repr((case.input, case.env, case.rules, identity, state))
            if memo not in self._prepared:
                prepared = self._make(case, sources, maker)
                if state != file_state(sources):
                    problem = f"{case.input.path.name} changed while it was read"
                    return NoInput(NoAnswer(Cause.ENVIRONMENT, problem))
                self._prepared[memo] = prepared
            return self._prepared[memo]
        except OSError as error:
            problem = f"{error.filename or case.input.path}: {error.strerror}"
            return NoInput(recipe_mistake(problem))

    def _maker_of(
        self, case: Case, toolchain: Toolchain | None
    ) -> _Maker | NoAnswer | None:
        """Return what makes the input of a case; None if the compiler reads the file
        itself, or the same text in another encoding.
        """
        if case.input.imported:
            return self._importer(case, toolchain)
        if case.input.kind is InputKind.GENERATOR:
            return self._generator(case, toolchain)
        return None

    def _make(
        self, case: Case, sources: Sequence[Path], maker: _Maker | None
    ) -> Prepared | NoInput:
        source = case.input.path
        if maker is None and case.input.kind is InputKind.MLIR and _is_marked(source):
            maker = _Maker("decoded", _write_decoded)
        if maker is None:
            state, mentioned = file_state([source]), tuple(mentioned_by(source))
            return Prepared(source, file_sha256(source), state, mentioned)
        parts = [
            f"{case.input.kind} {case.input.args}",
            *settings(dict(case.env)),
            *surroundings((), uses_processor=False),
            *(
                f"{path.name} {self._registry.contents.digest(path)}"
                for path in sources
            ),
            maker.identity,
        ]
        text = "\0".join(parts)
        key = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        target = self._registry.home.kept(KeptKind.INPUTS) / f"{key}.mlir"
        make = partial(maker.make, sources, key)
        return self._kept.get(target, make, fresh=self._fresh)

    # Generators

    def _generator(self, case: Case, toolchain: Toolchain | None) -> _Maker | NoAnswer:
        """Return what runs a generator: this program's interpreter or, for a family
        whose tools do, the toolchain that the case names.
        """
        words = self._compilers[case.compiler].generator
        if not words:
            argv: tuple[str, ...] = (sys.executable, "-P")
            make = partial(self._generate, case, argv, own_python())
            return _Maker(self._identity_of_own_python, make)
        try:
            maker = self._generating_toolchain(case, toolchain)
        except TriageError as error:
            problem = f"cannot obtain the toolchain that makes the program: {error}"
            return NoAnswer(Cause.TOOLCHAIN, problem)
        argv = (str(maker.program), *words)
        make = partial(self._generate, case, argv, maker.reads)
        return _Maker(f"{maker.identity} {words}", make)

    @cached_property
    def _identity_of_own_python(self) -> str:
        return self._registry.contents.identity(Needs((), Path(sys.executable)))

    def _generating_toolchain(
        self, case: Case, toolchain: Toolchain | None
    ) -> Toolchain:
        """Return the toolchain that generates the program of a case: the newest one,
        unless the case names another, or that on which it is compiled (`OWN`).
        """
        rev = case.input.maker
        if rev == OWN and toolchain is not None:
            return toolchain
        if rev is None or rev == OWN:
            rev = "latest"
        return named_toolchain(self._registry, rev, case)

    def _generate(
        self,
        case: Case,
        argv: Sequence[str],
        reads: Sequence[Path],
        sources: Sequence[Path],
        _key: str,
        scratch: Path,
    ) -> Path | NoInput:
        target = scratch / "made.mlir"
        words = [
            word for name, value in case.input.args for word in (f"--{name}", value)
        ]
        # The same program prints the same input.
        env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(case.env)}
        # options of the interpreter stand before the script, scripts of triage after it
        flags = [word for word in argv[1:] if word.startswith("-")]
        scripts = [word for word in argv[1:] if not word.startswith("-")]
        source = str(case.input.path)
        seal = Seal((*reads, *sources, _RUNNER))
        execution = run(
            [argv[0], *flags, str(_RUNNER), *scripts, source, *words],
            case.limits,
            scratch,
            seal=seal,
            env=env,
            stdout_to=target,
            stop=self._stop,
        )
        if execution.ok and regular_size(target):
            return target
        return NoInput(_why_not_generated(case, execution, seal))

    # ONNX

    def _importer(self, case: Case, toolchain: Toolchain | None) -> _Maker:
        """Return the importer of a toolchain, else that next to this program."""
        importer = onnx_family().onnx_importer
        assert importer
        parts = [package_version(package) for package in importer.packages]
        if toolchain:
            parts.append(toolchain.identity)
        make = partial(self._import_model, case, importer, toolchain)
        return _Maker(" ".join(parts), make)

    def _import_model(
        self,
        case: Case,
        importer: ModelImporter,
        toolchain: Toolchain | None,
        sources: Sequence[Path],
        key: str,
        scratch: Path,
    ) -> Path | NoInput:
        target, source = scratch / "made.mlir", case.input.path
        failed = self._cache.find(key)
        if failed:
            return NoInput(judge_import(failed.execution, rules_of(case)), cached=True)
        argv = [sys.executable, "-m", importer.module, str(source), "-o", str(target)]
        for root in self._importer_roots(toolchain):
            env, reads = dict(case.env), [*own_python(), *sources]
            if root:
                env["PYTHONPATH"] = str(root)
                reads.append(root)
            execution = run(
                argv,
                case.limits,
                scratch,
                seal=Seal(tuple(reads)),
                env=env,
                stop=self._stop,
            )
            if not _is_broken(execution):
                break
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

    def _importer_roots(self, toolchain: Toolchain | None) -> list[Path | None]:
        """Return the folders with the modules of an importer, best first; None for
        those next to this program.
        """
        if toolchain is None:
            return [None]
        tools = self._compilers[toolchain.family].mlir_tools(toolchain)
        return [tools.python_root, None] if tools else [None]

    # Files of suites

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
        host = ""
        if isinstance(source, Address):
            host = urlsplit(source).netloc
        if host in self._unreachable:
            problem = f"{source}: {self._unreachable[host]}"
            return NoAnswer(Cause.ENVIRONMENT, problem)
        try:
            if isinstance(source, Address):
                download(self._registry.workspace, source, target)
            else:
                source.write(target)
        except EnvironmentFailure as error:
            if host and not isinstance(error, Unobtainable):  # the host does not answer
                self._unreachable[host] = str(error)
            return NoAnswer(Cause.ENVIRONMENT, f"{source}: {error}")
        except ValueError as error:
            return recipe_mistake(str(error))
        return target


def download(workspace: Workspace, url: Address, target: Path) -> None:
    """Download a file of a suite. Raises EnvironmentFailure if that is impossible."""
    from triage.toolchains.web import Web  # slow to import

    workspace.refuse_if_dry(f"download {url}")
    Web(workspace).download(url, target, target.name, _LARGEST_DOWNLOAD)


def named_toolchain(registry: ToolchainRegistry, rev: str, case: Case) -> Toolchain:
    """Return the toolchain that a recipe names, which is a release or a nightly."""
    text = recorded_rev(rev.removeprefix(f"{case.compiler}:"))
    return registry.obtain(registry.resolve(text, case.compiler))


def _why_not_generated(case: Case, execution: Execution, seal: Seal) -> NoAnswer:
    machine = machine_problem(execution)
    if machine and machine.cause is Cause.ENVIRONMENT:
        return machine
    refused = what_was_refused(execution, seal)
    if refused and is_sealing():
        return undeclared(refused)
    how = execution.ending_text(case.limits)
    if execution.ok:
        how = "it printed nothing"
    problem = f"the generator {case.input.path.name} failed: {how}"
    last = execution.stderr.last_line[:300]
    if last:
        problem += f": {last}"
    return recipe_mistake(problem)


def _is_marked(source: Path) -> bool:
    """Return whether a text begins with a byte order mark or is not in UTF-8. Compilers
    read neither.
    """
    with source.open("rb") as file:
        head = file.read(4)
    return head.startswith(codecs.BOM_UTF8) or text_encoding(head) != "utf-8-sig"


def _write_decoded(sources: Sequence[Path], _key: str, scratch: Path) -> Path:
    target = scratch / "made.mlir"
    target.write_text(decoded(sources[0].read_bytes()), "utf-8")
    return target


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
