"""Read the files of IREE's test suites: JSON documents, programs, values and weights, from a folder or from URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from triage.compilers.iree.devices import target_of
from triage.compilers.iree.random_values import RandomWeights
from triage.compilers.iree.recipe import IREE
from triage.compilers.iree.values import ValueText, split_value
from triage.model.case import Artifact, Case, Flag, Input, Library, RunSpec, Target
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.recipes.document import ConfigDocument, FileKind, Loc, read_json5
from triage.recipes.mapping import Format, checked, in_order

KIND = FileKind("suite file", 'write a mapping such as {"config_name": …} or {"type": "compstat", "markers": [], "module": …}')
LIMITS = Limits(timeout=1800.0, memory=64 << 30)  # models take minutes, and their weights gigabytes
_TOLERANCE = re.compile(r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z")
_STATISTICS = "--iree-scheduling-dump-statistics-"  # written to a file that is read here; the tests' own would be lost

Files = tuple[Artifact, ...]


class SuiteFiles:
    """Reads the files of one suite. Every mistake is added to `problems`."""

    def __init__(self, folder: Path, downloads: Path) -> None:
        """folder: what names of modules are relative to; downloads: where files from URLs are kept."""
        self.folder, self.downloads = folder.absolute(), downloads
        self.problems: list[Problem] = []
        self._documents: dict[Path, ConfigDocument | None] = {}
        self._checked: dict[tuple[Path, type[Any]], Any] = {}

    def document(self, file: Path) -> ConfigDocument | None:
        """Read a JSON file; None if it cannot be read."""
        file = file.absolute()
        if file not in self._documents:
            try:
                self._documents[file] = read_json5(file, KIND)
            except BadFiles as error:
                self.problems += error.problems
                self._documents[file] = None
        return self._documents[file]

    def content(self, document: ConfigDocument, model: type[Format]) -> Format | None:
        """The content of a file; None if it has mistakes."""
        key = Path(document.path), model
        if key not in self._checked:
            self._checked[key] = checked(document, model)
            self.problems += in_order(document.problems)
        known: Format | None = self._checked[key]
        return known

    def report(self, document: ConfigDocument, loc: Loc, message: str, *, at_key: bool = False) -> None:
        """Add a mistake."""
        self.problems.append(document.problem(loc, message, at_key=at_key))

    def kept(self, content: str, name: str) -> Path:
        """Where a file is kept that is downloaded or generated. content: its address, or what decides it."""
        return self.downloads / sha256(content.encode()).hexdigest()[:16] / name

    def download(self, url: str) -> Artifact:
        """The file of a URL."""
        return Artifact(self.kept(url, PurePosixPath(urlsplit(url).path).name or "file"), url)

    def file(self, place: str, document: ConfigDocument, loc: Loc) -> tuple[Path, Files]:
        """The path of a URL, with the artifact to download, or of a file beside the document."""
        if re.match(r"https?://[^/]+/.", place):
            artifact = self.download(place)
            return artifact.path, (artifact,)
        path = (Path(document.path).parent / place).absolute()
        if not path.is_file():
            self.report(document, loc, f'there is no file "{place}"; write a URL or a path beside this file.')
        return path, ()

    def file_below(self, name: str, document: ConfigDocument, loc: Loc) -> Path | None:
        """A file somewhere below the folder, by its name."""
        file = next(iter(sorted(self.folder.rglob(name))), None)
        if file is None:
            self.report(document, loc, f'there is no file "{name}" below {self.folder}: name a folder that has it as well.')
        return file

    def program(self, place: str, flags: Sequence[str], document: ConfigDocument, loc: Loc) -> Library | None:
        """A program by its URL or path, with its flags; None if it is not one."""
        path, artifacts = self.file(place, document, loc)
        kind = IREE.inputs.get(path.suffix)
        if kind is None:
            self.report(document, loc, f'"{path.name}" is not a program: name a file of {", ".join(IREE.inputs)}.')
            return None
        return Library(Input(path, kind), tuple(Flag(flag) for flag in flags if not flag.startswith(_STATISTICS)), artifacts)

    def value(self, text: str, place: str | None, document: ConfigDocument, loc: Loc) -> tuple[str, Files]:
        """A value in the notation of the runtime: `TYPE`, `TYPE=@FILE`, `@FILE`, or a literal. place: the URL of its file."""
        if place is not None:
            path, artifacts = self.file(place, document, loc)
            return str(ValueText(text, str(path), "")), artifacts
        try:
            parts = split_value(text)
        except ValueError as error:
            self.report(document, loc, str(error))
            return "", ()
        if parts.file is None:
            return str(parts), ()
        path, artifacts = self.file(parts.file, document, loc)
        return str(replace(parts, file=str(path))), artifacts

    def weights(self, program: Library, seed: int | None) -> tuple[Path, Files]:
        """Random weights for a program; zeros without a seed."""
        path = self.kept(f"{program.input.path}\0{seed}", "zero.safetensors" if seed is None else "random.safetensors")
        drawn = RandomWeights(program.input.path, seed or 0, 0.0 if seed is None else 0.01)
        return path, (*program.artifacts, Artifact(path, drawn))

    def run(
        self,
        inputs: Sequence[tuple[str, Files]],
        expected: Sequence[tuple[str, Files]] = (),
        weights: Sequence[tuple[str, tuple[Path, Files]]] = (),
        flags: Sequence[str] = (),
    ) -> RunSpec:
        """A run with these values and weights (by scope). Flags that set a tolerance become tolerances."""
        matches = [match for flag in flags if (match := _TOLERANCE.match(flag))]
        return RunSpec(
            inputs=tuple(text for text, _ in inputs),
            expected=tuple(text for text, _ in expected),
            flags=tuple(flag for flag in flags if not _TOLERANCE.match(flag)),
            tolerances=tuple({match[1]: float(match[2]) for match in matches}.items()),
            limits=LIMITS,
            parameters=tuple((scope, path) for scope, (path, _) in weights),
            artifacts=tuple(
                artifact
                for files in [*(each[1] for each in (*inputs, *expected)), *(w[1][1] for w in weights)]
                for artifact in files
            ),
        )

    def case(self, recipe: str, name: Path | str, source: Path, program: Library) -> Case:
        """The case that compiles the program of a test. name: of the test, or its file; source: the file that describes it."""
        backend, chip = target_of([flag.text for flag in program.flags])
        if isinstance(name, Path):
            below = name.relative_to(self.folder) if name.is_relative_to(self.folder) else Path(name.name)
            name = below.with_suffix("").as_posix()
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


def measured(case: Case, run: RunSpec) -> Case:
    """The case with a run that is measured, also by `bench`."""
    run = replace(run, measured=True)
    plain = replace(run, flags=tuple(flag for flag in run.flags if not flag.startswith("--benchmark_")))
    return replace(case, run=run, benchmarks=(plain,))
