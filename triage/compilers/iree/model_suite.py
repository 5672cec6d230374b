"""Read IREE's tests of whole models: JSON files of type quality, benchmark and compstat, and the modules that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from triage.compilers.iree.devices import target_of
from triage.compilers.iree.recipe import IREE
from triage.compilers.iree.values import ValueText, split_value
from triage.compilers.iree.weights import RandomWeights
from triage.config.document import ConfigDocument, FileKind, read_json5
from triage.config.schema import Format, MappingFormat, Natural, Positive, Text, checked, in_order
from triage.config.values import advice
from triage.model.case import Artifact, Case, Flag, Input, Library, RunSpec, Target
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits

_TEST = FileKind("model test", 'write {"type": "compstat", "markers": [], "module": "modules/NAME"}')
_MODULE = FileKind("module", 'write {"mlir": "https://…/model.mlir", "compiler_flags": […]}')
LIMITS = Limits(timeout=1800.0, memory=64 << 30)  # models take minutes, and their weights gigabytes
_TOLERANCE = re.compile(r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z")
STATISTICS = "--iree-scheduling-dump-statistics-"  # written to a file that is read here; the tests' own would be lost

_Number = Positive | SkipJsonSchema[None]


class ModuleFormat(MappingFormat):
    """A program with the flags that compile it."""

    noun: ClassVar[str] = "a module"

    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: list[Text] = Field(default=[], examples=[["--iree-opt-level=O3"]])


class WeightsFormat(MappingFormat):
    """Weights: a file, or random ones for the parameters of a module."""

    noun: ClassVar[str] = "an entry of weights"

    type: Literal["url", "random"] = Field(examples=["url"])
    scope: Text = Field(examples=["model"])
    url: Text | None = Field(default=None, examples=["https://example.com/weights.irpa"])
    module: Text | None = Field(default=None, examples=["modules/model"])
    seed: Natural | None = Field(default=None, examples=[42])

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if self.type == "url" and self.url is None:
            raise advice('weights of type "url" need the key "url".')
        if self.type == "random" and (self.module is None or self.seed is None):
            raise advice('weights of type "random" need the keys "module" and "seed".')
        return self


class ValueFormat(MappingFormat):
    """An argument or a result: its type or literal, and the file with its elements."""

    noun: ClassVar[str] = "a value"

    value: Text | None = Field(default=None, examples=["1x64xi64"])
    url: Text | None = Field(default=None, examples=["https://example.com/input.bin"])

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if self.value is None and self.url is None:
            raise advice('a value needs the key "value", the key "url" or both: write {"value": "1x64xi64"}.')
        return self


class ModelTestFormat(MappingFormat):
    """What all tests say."""

    noun: ClassVar[str] = "a model test"

    type: Text
    markers: list[Text] = Field(examples=[["cpu"]])


class ExecutedFormat(ModelTestFormat):
    """What the tests say that run a program."""

    modules: list[Text] = Field(min_length=1, examples=[["modules/model"]])
    weights: list[WeightsFormat] = Field(default=[])
    inputs: list[ValueFormat] = Field(default=[], examples=[[{"value": "1x64xi64"}]])
    run_args: list[Text] = Field(default=[], examples=[["--device=local-task", "--function=main"]])


class QualityFormat(ExecutedFormat):
    """A run whose results are compared."""

    noun: ClassVar[str] = "a quality test"

    expected_outputs: list[ValueFormat] = Field(default=[], examples=[[{"value": "1x64xf32", "url": "https://…/out.bin"}]])


class TimeFormat(ExecutedFormat):
    """A run whose time has a limit."""

    noun: ClassVar[str] = "a benchmark test"

    golden_time_ms: _Number = Field(default=None, examples=[5.84])
    tolerance_factor: Positive = Field(default=1.1, examples=[1.1])


class StatisticsFormat(ModelTestFormat):
    """A compile whose number of dispatches and size have limits."""

    noun: ClassVar[str] = "a compstat test"

    module: Text = Field(examples=["modules/model"])
    golden_dispatch_count: _Number = Field(default=None, examples=[2130])
    golden_binary_size: _Number = Field(default=None, examples=[650000])


_FORMATS: dict[str, type[QualityFormat | TimeFormat | StatisticsFormat]] = {
    "quality": QualityFormat,
    "benchmark": TimeFormat,
    "compstat": StatisticsFormat,
}


class ModelTests:
    """Makes the cases of tests. Every mistake is added to `problems`."""

    def __init__(self, modules: Path, downloads: Path, problems: list[Problem]) -> None:
        """modules: the folder that names of modules are relative to; downloads: where files from URLs are kept."""
        self._modules, self._downloads, self._problems = modules, downloads, problems
        self._known: dict[str, Library | None] = {}

    def case(self, path: Path, document: ConfigDocument) -> Case | None:
        """The case of a test; None when it has mistakes."""
        kind = document.data.get("type")
        if kind not in _FORMATS:
            self._problems.append(document.problem(("type",), f'"{kind}" is not a type of test: write {", ".join(_FORMATS)}.'))
            return None
        test = checked_test(document, _FORMATS[kind], self._problems)
        if test is None:
            return None
        names = [test.module] if isinstance(test, StatisticsFormat) else test.modules
        programs = [self._module(name, document, loc) for name, loc in zip(names, _places(test), strict=True)]
        run = None if isinstance(test, StatisticsFormat) else self._run(test, document)
        first, *others = programs
        if first is None or None in others:
            return None
        if run is not None:
            run = replace(run, libraries=tuple(library for library in others if library))
        place = path.absolute()
        timed = (replace(run, flags=tuple(flag for flag in run.flags if not flag.startswith("--benchmark_"))),) if run else ()
        return replace(
            suite_case(str(kind), self.name(place), place, first),
            summary=" ".join(test.markers),
            run=run,
            benchmarks=timed if kind == "benchmark" else (),
            goldens=tuple(_goldens(test)),
        )

    def _module(self, name: str, document: ConfigDocument, loc: tuple[str | int, ...]) -> Library | None:
        if name not in self._known:
            file = (self._modules / name).with_suffix(".json")
            if not file.is_file():
                self._problems.append(document.problem(loc, f'there is no module "{name}": {file} does not exist.'))
                return None
            self._known[name] = self._read_module(file)
        return self._known[name]

    def _read_module(self, file: Path) -> Library | None:
        document = document_in(file, _MODULE, self._problems)
        module = checked_test(document, ModuleFormat, self._problems) if document else None
        if module is None or document is None:
            return None
        return self.program(module.mlir, module.compiler_flags, document, ("mlir",))

    def program(self, place: str, flags: Sequence[str], document: ConfigDocument, loc: tuple[str | int, ...]) -> Library | None:
        """A program by its URL or path, with its flags; None when it is none."""
        path, artifacts = self.file(place, document, loc)
        kind = IREE.inputs.get(path.suffix)
        if kind is None:
            wanted = ", ".join(IREE.inputs)
            self._problems.append(document.problem(loc, f'"{path.name}" is not a program: name a file of {wanted}.'))
            return None
        return Library(Input(path, kind), tuple(Flag(flag) for flag in flags if not flag.startswith(STATISTICS)), artifacts)

    def _run(self, test: QualityFormat | TimeFormat, document: ConfigDocument) -> RunSpec:
        inputs = [self._value(value, document, ("inputs", index)) for index, value in enumerate(test.inputs)]
        outputs = test.expected_outputs if isinstance(test, QualityFormat) else []
        expected = [self._value(value, document, ("expected_outputs", index)) for index, value in enumerate(outputs)]
        weights = [self._weights(entry, document, ("weights", index)) for index, entry in enumerate(test.weights)]
        flags, tolerances = split_tolerances(test.run_args)
        return RunSpec(
            inputs=tuple(text for text, _ in inputs),
            expected=tuple(text for text, _ in expected),
            flags=flags,
            tolerances=tolerances,
            limits=LIMITS,
            parameters=tuple((entry.scope, path) for entry, (path, _) in zip(test.weights, weights, strict=True)),
            artifacts=tuple(artifact for _, artifacts in (*inputs, *expected, *weights) for artifact in artifacts),
            measured=isinstance(test, TimeFormat),
        )

    def _weights(
        self, entry: WeightsFormat, document: ConfigDocument, loc: tuple[str | int, ...]
    ) -> tuple[Path, tuple[Artifact, ...]]:
        if entry.url is not None:
            return self.file(entry.url, document, (*loc, "url"))
        module = self._module(entry.module or "", document, (*loc, "module"))
        if module is None:
            return Path(), ()
        path = self.generated(f"{module.input.path}\0{entry.seed}", "random.safetensors")
        return path, (*module.artifacts, Artifact(path, RandomWeights(module.input.path, entry.seed or 0)))

    def _value(
        self, value: ValueFormat, document: ConfigDocument, loc: tuple[str | int, ...]
    ) -> tuple[str, tuple[Artifact, ...]]:
        """A value in the notation of the runtime: `TYPE`, `TYPE=@FILE`, `@FILE`, or a literal."""
        if value.url is not None:
            path, artifacts = self.file(value.url, document, (*loc, "url"))
            return str(ValueText(value.value or "", str(path), "")), artifacts
        return self.value(value.value or "", document, (*loc, "value"))

    def value(self, text: str, document: ConfigDocument, loc: tuple[str | int, ...]) -> tuple[str, tuple[Artifact, ...]]:
        """A value in the notation of the runtime, with the path of its file."""
        try:
            parts = split_value(text)
        except ValueError as error:
            self._problems.append(document.problem(loc, str(error)))
            return "", ()
        if parts.file is None:
            return str(parts), ()
        path, artifacts = self.file(parts.file, document, loc)
        return str(replace(parts, file=str(path))), artifacts

    def file(self, place: str, document: ConfigDocument, loc: tuple[str | int, ...]) -> tuple[Path, tuple[Artifact, ...]]:
        """The path of a URL, with the artifact to download, or of a file beside the document."""
        if re.match(r"https?://[^/]+/.", place):
            artifact = download(self._downloads, place)
            return artifact.path, (artifact,)
        path = (Path(document.path).parent / place).absolute()
        if not path.is_file():
            self._problems.append(document.problem(loc, f'there is no file "{place}"; write a URL or a path beside this file.'))
        return path, ()

    def generated(self, content: str, name: str) -> Path:
        """Where a file is kept that is generated. content: what decides it."""
        return kept_in(self._downloads, content) / name

    def name(self, path: Path) -> str:
        """The name of a test: its path below the folder of modules."""
        name = path.relative_to(self._modules) if path.is_relative_to(self._modules) else Path(path.name)
        return name.with_suffix("").as_posix()


def suite_case(recipe: str, name: str, source: Path, program: Library) -> Case:
    """The case that compiles the program of a test. source: the file that describes the test."""
    backend, chip = target_of([flag.text for flag in program.flags])
    return Case(
        recipe=recipe,
        name=name,
        summary="",
        compiler=IREE.name,
        source=source,
        input=program.input,
        target=Target(backend or "llvm-cpu", chip),
        flags=program.flags,
        limits=LIMITS,
        artifacts=program.artifacts,
    )


def split_tolerances(flags: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]]:
    """The flags of a run without those that set a tolerance, and the tolerances by element type."""
    tolerances = {match[1]: float(match[2]) for flag in flags if (match := _TOLERANCE.match(flag))}
    return tuple(flag for flag in flags if not _TOLERANCE.match(flag)), tuple(tolerances.items())


def kept_in(downloads: Path, content: str) -> Path:
    """The folder for a file that is downloaded or generated. content: its address, or what decides it."""
    return downloads / sha256(content.encode()).hexdigest()[:16]


def download(downloads: Path, url: str) -> Artifact:
    """The file of a URL."""
    return Artifact(kept_in(downloads, url) / (PurePosixPath(urlsplit(url).path).name or "file"), url)


def document_in(file: Path, kind: FileKind, problems: list[Problem]) -> ConfigDocument | None:
    """Read a file; None when it cannot be read, which is added to `problems`."""
    try:
        return read_json5(file, kind)
    except BadFiles as error:
        problems += error.problems
        return None


def model_tests(
    paths: Sequence[Path], is_test: Callable[[Any], bool], problems: list[Problem]
) -> Iterator[tuple[Path, ConfigDocument]]:
    """Read the files of tests. Of a folder, those below it whose content is a test; its other files are modules."""
    for path in paths:
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            document = document_in(file, _TEST, problems)
            if document and (path.is_file() or is_test(document.data)):
                yield file, document


def checked_test(document: ConfigDocument, model: type[Format], problems: list[Problem]) -> Format | None:
    """The content of a file; None when it has mistakes, which are added to `problems`."""
    content = checked(document, model)
    problems += in_order(document.problems)
    return content


def _places(test: QualityFormat | TimeFormat | StatisticsFormat) -> list[tuple[str | int, ...]]:
    if isinstance(test, StatisticsFormat):
        return [("module",)]
    return [("modules", index) for index in range(len(test.modules))]


def _goldens(test: QualityFormat | TimeFormat | StatisticsFormat) -> Iterator[tuple[str, float]]:
    if isinstance(test, TimeFormat) and test.golden_time_ms is not None:
        yield "run_ms", test.golden_time_ms * test.tolerance_factor
    if isinstance(test, StatisticsFormat):
        if test.golden_dispatch_count is not None:
            yield "dispatches", test.golden_dispatch_count
        if test.golden_binary_size is not None:
            yield "artifact_bytes", test.golden_binary_size
