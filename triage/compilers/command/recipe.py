"""The recipe keys of a compiler that a command line calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, Field

from triage.compilers.base import VERSION
from triage.compilers.command.adapter import CommandSpec
from triage.model.case import Case, InputKind, Target
from triage.model.checks import REQUIRED, Text, file_key
from triage.model.revision import FamilyRef
from triage.recipes.mapping import OneOrMore
from triage.recipes.recipe import File, Recipe, locate
from triage.recipes.values import unknown_word

_MLIR = (".mlir", ".mlirbc")
_PLACEHOLDERS = (
    "{input}",
    "{output}",
    "{toolchain}",
    "{python}",
    "{site_packages}",
    "{flags}",
)


def _known_placeholders(text: str) -> str:
    for name in re.findall(r"\{\w+\}", text.replace("${", "")):
        if name not in _PLACEHOLDERS:
            raise ValueError(unknown_word(name, "placeholder", _PLACEHOLDERS))
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text.replace(VERSION, "0"))
    except InvalidRequirement:
        raise ValueError(
            f'"{text}" is not a requirement: write a name such as cython, or bounds '
            'such as "numpy<2".'
        ) from None
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f'"{text}" is not a regular expression: {error}.') from None
    return text


_Word = Annotated[str, AfterValidator(_known_placeholders)]
_Words = Annotated[tuple[_Word, ...], Field(min_length=1)]
_Packages = Annotated[
    tuple[Annotated[Text, AfterValidator(_requirement)], ...],
    OneOrMore,
    Field(min_length=1),
]


@dataclass(frozen=True)
class VersionCommand:
    """How to ask a compiler in a folder for its version."""

    run: _Words = file_key(
        REQUIRED, "Prints the version.", ["{toolchain}/bin/mlir-opt", "--version"]
    )
    pattern: Annotated[Text, AfterValidator(_pattern)] = file_key(
        r"\d+(?:\.\d+)+",
        "A pattern for the version, or with a group for it, in the output.",
    )


@dataclass(frozen=True, kw_only=True)
class CommandRecipe(Recipe):
    """Any compiler that a command runs."""

    target: Target = file_key(Target("host"), "What to compile for; shown in reports.")
    command: _Words = file_key(
        REQUIRED,
        f"Program and arguments, with the placeholders {', '.join(_PLACEHOLDERS)}.",
        ["{python}", "-m", "cython", "{input}", "-o", "{output}"],
    )
    package: _Packages = file_key(
        (),
        "The package whose releases are the timeline, then further requirements to "
        f"install; {VERSION} is the version of the first.",
        "cython",
        ["numba", "numpy<2"],
        ["iree-base-compiler", f"iree-base-runtime=={VERSION}"],
    )
    version: VersionCommand | None = file_key(
        None, "How to ask a compiler without a package for its version."
    )
    rules: File | None = file_key(
        None,
        "A file of your own failure rules; they take precedence over the packaged "
        "ones.",
    )

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.phase is not None:
            yield (
                "phase",
                'compiler "command" cannot stop after a phase; remove the key.',
            )
        if self.package and not re.fullmatch(r"[\w.-]+", self.package[0]):
            yield (
                "package",
                f"{self.package[0]} has bounds, but the first package is the one whose "
                "releases are tried: write its name only.",
            )

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its command and the name of its compiler. Recipes with
        the same packages share a compiler, others have one each.
        """
        rule = None
        if self.version:
            rule = (self.version.run, self.version.pattern)
        packages = self.package
        recipe = None if packages else self.name
        return replace(
            case,
            compiler=str(FamilyRef(case.compiler, packages, recipe)),
            rules=locate(folder, self.rules) if self.rules else None,
            # the syntax of MLIR changes, so that many versions cannot read it
            spec=CommandSpec(
                self.command, packages, rule, not self.input.endswith(_MLIR)
            ),
        )
