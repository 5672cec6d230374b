"""The files of IREE's test suites: JSON files, and the programs and values that they
name or download.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from triage.compilers.iree.devices import IREE, target_of
from triage.model.address import Address
from triage.model.case import Artifact, Case, Flag, Library, Target
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.recipes.document import read_document
from triage.recipes.mapping import MappingFormat, content_of
from triage.recipes.run_values import ValueText, split_value

_EMPTY = (
    'write a mapping such as {"config_name": …} or {"type": "compstat", "markers": '
    '[], "module": …}'
)
# models take minutes, and their weights gigabytes
LIMITS = Limits(timeout=1800.0, memory=64 << 30)
M = TypeVar("M", bound=MappingFormat)
At = str | int


class Suite:
    """A folder of tests. Names of modules are relative to it."""

    def __init__(self, folder: Path, downloads: Path) -> None:
        """Files from URLs are kept in `downloads`."""
        self.folder, self.downloads = folder.absolute(), downloads
        self.problems: list[Problem] = []
        self._artifacts: dict[Path, Artifact] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add a file's mistakes to `problems`, and go on with the next file."""
        try:
            yield
        except BadFiles as error:
            self.problems += error.problems

    def download(self, url: str) -> Path:
        """Add the file of a URL, and return its path."""
        name = PurePosixPath(urlsplit(url).path).name or "file"
        path = self.downloads / sha256(url.encode()).hexdigest()[:16] / name
        self._artifacts[path] = Artifact(path, Address(url))
        return path

    def artifacts_of(self, *paths: Path) -> tuple[Artifact, ...]:
        """Return the files among these that have to be downloaded."""
        artifacts = map(self._artifacts.get, paths)
        return tuple(artifact for artifact in artifacts if artifact)


class SuiteFile:
    """A JSON file of a suite.

    `at` says where in the file a mistake is: its keys and indices, from outside in.
    Parts that the file does not have are left out.
    """

    def __init__(self, suite: Suite, path: Path) -> None:
        self.suite, self.path = suite, path.absolute()
        self._document = read_document(self.path, _EMPTY, json=True)
        self.data: Any = self._document.data

    def content(self, model: type[M]) -> M:
        """Return the content by its model. Raises BadFiles with every mistake."""
        return content_of(self._document, model)

    def mistake(self, message: str, *at: At) -> BadFiles:
        """Return the error for a mistake."""
        return BadFiles([self._document.problem(at, message)])

    def file(self, place: str, *at: At) -> Path:
        """Return the path of a file: downloaded from a URL, or next to this one."""
        if re.match(r"https?://[^/]+/.", place):
            return self.suite.download(place)
        path = (self.path.parent / place).absolute()
        if not path.is_file():
            text = (
                f'there is no file "{Address(place)}"; write a URL or a path next to '
            )
            raise self.mistake(f"{text}this file.", *at)
        return path

    def program(self, place: str, flags: Sequence[str], *at: At) -> Library:
        """Return a program by its URL or path, with its flags."""
        path = self.file(place, *at)
        if path.suffix not in IREE.inputs:
            kinds = ", ".join(IREE.inputs)
            text = f'"{path.name}" is not a program: name a file of {kinds}.'
            raise self.mistake(text, *at)
        own = tuple(map(Flag, flags))
        return Library(IREE.input_at(path), own, self.suite.artifacts_of(path))

    def value(self, text: str, url: str | None, *at: At) -> str:
        """Find or download the file that a value names; return the value with the path
        of that file, such as `2xf32=@PATH`.

        `text` is the whole value, or only its type if `url` names its file.
        """
        try:
            parts = split_value(text) if url is None else ValueText(text, url, "")
        except ValueError as error:
            raise self.mistake(str(error), *at) from None
        if parts.file is None:
            return text
        return str(replace(parts, file=str(self.file(parts.file, *at))))

    def case(self, recipe: str, name: str, program: Library, limits: Limits) -> Case:
        """Return the case that compiles the program of a test."""
        backend, chip = target_of([flag.text for flag in program.flags])
        return Case(
            recipe=recipe,
            name=name,
            summary="",
            compiler=IREE.name,
            source=self.path,
            input=program.input,
            target=Target(backend or "llvm-cpu", chip),
            flags=program.flags,
            limits=limits,
            artifacts=program.artifacts,
        )
