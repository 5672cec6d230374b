"""Read the files of IREE's test suites: JSON documents, programs, values and weights, from a folder or from URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from triage.compilers.iree.devices import IREE, target_of
from triage.compilers.values import ValueText, split_value
from triage.model.case import Artifact, Case, Flag, Generator, Input, Library, RunSpec, Target
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.recipes.document import ConfigDocument, Loc, read_document
from triage.recipes.mapping import MappingFormat

EMPTY = 'write a mapping such as {"config_name": …} or {"type": "compstat", "markers": [], "module": …}'
LIMITS = Limits(timeout=1800.0, memory=64 << 30)  # models take minutes, and their weights gigabytes
_TOLERANCE = re.compile(r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z")
_STATISTICS = "--iree-scheduling-dump-statistics-"  # written to a file that is read here; the tests' own would be lost


class SuiteMapping(MappingFormat):
    """A mapping in a file of a suite."""


def mistake(document: ConfigDocument, loc: Loc, message: str) -> BadFiles:
    """The error for a mistake in a file. loc: parts that are not in the file are left out."""
    return BadFiles([document.problem(loc, message)])


class SuiteFiles:
    """Reads the files of one suite. The methods raise BadFiles for a mistake; `problems` has those of all files."""

    def __init__(self, folder: Path, downloads: Path) -> None:
        """folder: what names of modules are relative to; downloads: where files from URLs are kept."""
        self.folder, self.downloads = folder.absolute(), downloads
        self.problems: list[Problem] = []
        self._artifacts: dict[Path, tuple[Artifact, ...]] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add a file's mistakes to `problems`, and go on with the next file."""
        try:
            yield
        except BadFiles as error:
            self.problems += error.problems

    def document(self, file: Path) -> ConfigDocument:
        """Read a JSON file."""
        return read_document(file.absolute(), EMPTY, json=True)

    def made(self, key: str, name: str, source: str | Generator, *before: Artifact) -> Path:
        """The path of a file that is downloaded or generated. key: decides its content; before: what it is made of."""
        path = self.downloads / sha256(key.encode()).hexdigest()[:16] / name
        self._artifacts[path] = (*before, Artifact(path, source))
        return path

    def artifacts_of(self, *paths: Path) -> tuple[Artifact, ...]:
        """What has to be obtained before these files are there."""
        return tuple(artifact for path in paths for artifact in self._artifacts.get(path, ()))

    def download(self, url: str) -> Path:
        """The path of the file of a URL."""
        return self.made(url, PurePosixPath(urlsplit(url).path).name or "file", url)

    def file(self, place: str, document: ConfigDocument, loc: Loc) -> Path:
        """The file of a URL or next to the document."""
        if re.match(r"https?://[^/]+/.", place):
            return self.download(place)
        path = (Path(document.path).parent / place).absolute()
        if not path.is_file():
            raise mistake(document, loc, f'there is no file "{place}"; write a URL or a path next to this file.')
        return path

    def file_below(self, name: str, document: ConfigDocument, loc: Loc) -> Path:
        """A file somewhere below the folder, by its name."""
        for file in sorted(self.folder.rglob(name)):
            return file
        raise mistake(document, loc, f'there is no file "{name}" below {self.folder}: name a folder that has it as well.')

    def program(self, place: str, flags: Sequence[str], document: ConfigDocument, loc: Loc) -> Library:
        """A program by its URL or path, with its flags."""
        path = self.file(place, document, loc)
        if path.suffix not in IREE.inputs:
            raise mistake(document, loc, f'"{path.name}" is not a program: name a file of {", ".join(IREE.inputs)}.')
        own = tuple(Flag(flag) for flag in flags if not flag.startswith(_STATISTICS))
        return Library(Input(path, IREE.inputs[path.suffix]), own, self.artifacts_of(path))

    def value(self, text: str, place: str | None, document: ConfigDocument, loc: Loc) -> str:
        """A value in the notation of the runtime: `TYPE`, `TYPE=@FILE`, `@FILE`, or a literal. place: the URL of its file."""
        try:
            parts = split_value(text) if place is None else ValueText(text, place, "")
        except ValueError as error:
            raise mistake(document, loc, str(error)) from None
        return text if parts.file is None else str(replace(parts, file=str(self.file(parts.file, document, loc))))

    def run(
        self,
        inputs: Sequence[str],
        expected: Sequence[str] = (),
        weights: Sequence[tuple[str, Path]] = (),
        flags: Sequence[str] = (),
        libraries: Sequence[Library] = (),
    ) -> RunSpec:
        """A run with these values and weights (by scope). Flags that set a tolerance become tolerances."""
        files = [Path(file) for text in (*inputs, *expected) if (file := split_value(text).file)]
        tolerances = {flag: match for flag in flags if (match := _TOLERANCE.match(flag))}
        return RunSpec(
            inputs=tuple(inputs),
            expected=tuple(expected),
            flags=tuple(flag for flag in flags if flag not in tolerances),
            tolerances=tuple({match[1]: float(match[2]) for match in tolerances.values()}.items()),
            limits=LIMITS,
            libraries=tuple(libraries),
            parameters=tuple(weights),
            artifacts=self.artifacts_of(*files, *(path for _, path in weights)),
        )

    def case(self, recipe: str, program: Library, document: ConfigDocument, name: str = "", limits: Limits = LIMITS) -> Case:
        """The case that compiles the program of a test. document: describes it; name: of the file when left out."""
        backend, chip = target_of([flag.text for flag in program.flags])
        source = Path(document.path)
        below = source.relative_to(self.folder) if source.is_relative_to(self.folder) else Path(source.name)
        return Case(
            recipe=recipe,
            name=name or below.with_suffix("").as_posix(),
            summary="",
            compiler=IREE.name,
            source=source,
            input=program.input,
            target=Target(backend or "llvm-cpu", chip),
            flags=program.flags,
            limits=limits,
            artifacts=program.artifacts,
        )
