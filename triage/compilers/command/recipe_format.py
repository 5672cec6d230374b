"""The recipe keys of a compiler behind a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from triage.compilers.base import VERSION
from triage.compilers.command.spec import CommandSpec, VersionRule, is_mlir
from triage.recipes.files import check_file, locate
from triage.recipes.mapping import MappingFormat
from triage.recipes.schema import RecipeFormat, TargetFormat
from triage.recipes.suggestions import did_you_mean
from triage.recipes.values import advice, as_list, as_text, as_written

_PLACES = ("input", "output", "toolchain", "python", "site_packages", "flags")
_LISTED = ", ".join(f"{{{name}}}" for name in _PLACES)
_PLACE = re.compile(r"\{(\w+)\}")
_TEXT = {"type": "string", "pattern": r"\S"}


def _word(value: Any) -> str:
    text = as_written(value)
    unknown = next((name for name in _PLACE.findall(text.replace("${", "")) if name not in _PLACES), None)
    if unknown is not None:
        raise advice(f'"{{{unknown}}}" is not a placeholder{did_you_mean(unknown, _PLACES)} Placeholders: {_LISTED}.')
    return text


def _requirement(value: Any) -> str:
    text = as_text(value)
    try:
        Requirement(text.replace(VERSION, "0"))
    except InvalidRequirement:
        raise advice(
            f'"{text}" is not a requirement: write a name such as cython, or bounds such as "numpy<2" or "numba=={VERSION}".'
        ) from None
    return text


def _pattern(value: Any) -> str:
    text = as_text(value)
    try:
        re.compile(text)
    except re.error as error:
        raise advice(f'"{text}" is not a regular expression: {error}.') from None
    return text


_Words = Annotated[list[Annotated[str, BeforeValidator(_word), WithJsonSchema(_TEXT)]], Field(min_length=1)]


class VersionFormat(MappingFormat):
    """How to ask a compiler in a folder for its version."""

    noun: ClassVar[str] = "version"

    run: _Words = Field(description="Prints the version.", examples=[["{toolchain}/bin/mlir-opt", "--version"]])
    pattern: Annotated[str, BeforeValidator(_pattern), WithJsonSchema(_TEXT)] = Field(
        default=r"\d+(?:\.\d+)+",
        description="A pattern for the version, or with a group for it, in the output.",
    )


class CommandFormat(RecipeFormat):
    """Any compiler that a command runs."""

    target: TargetFormat = Field(
        default_factory=lambda: TargetFormat.model_construct(backend="host"),
        description="What to compile for; shown in reports.",
    )
    command: _Words = Field(
        description=f"Program and arguments, with the placeholders {_LISTED}.",
        examples=[["{python}", "-m", "cython", "{input}", "-o", "{output}"]],
    )
    package: Annotated[
        list[Annotated[str, BeforeValidator(_requirement), WithJsonSchema(_TEXT)]],
        BeforeValidator(as_list),
        Field(min_length=1),
    ] = Field(
        default=[],
        validate_default=False,
        description="The package whose releases are the timeline, then further requirements to install; "
        f"{VERSION} is the version of the first.",
        examples=["cython", ["numba", "numpy<2"], ["iree-base-compiler", f"iree-base-runtime=={VERSION}"]],
    )
    version: VersionFormat | None = Field(default=None, description="How to ask a compiler without a package for its version.")
    parse_errors: Literal["fail", "untestable"] | None = Field(
        default=None,
        description="What a version that cannot read the input is: a failure (default), or untestable (default for MLIR).",
    )
    rules: Annotated[str, BeforeValidator(check_file), WithJsonSchema(_TEXT)] | None = Field(
        default=None, description="A file of your own failure rules; they take precedence over the packaged ones."
    )

    @model_validator(mode="after")
    def _one_compiler(self) -> Self:
        if self.phase is not None:
            raise advice('compiler "command" cannot stop after a phase; remove the key.', "phase")
        if self.package and not _is_name(self.package[0]):
            name = self.package[0]
            message = f"{name} has bounds, but the first package is the one whose releases are tried: write its name only."
            raise advice(message, "package")
        if self.package and self.version is not None:
            raise advice("the version of a package is known; remove the key.", "version")
        return self

    def toolchain_family(self, compiler: str) -> str:
        """One family per package, whose toolchains recipes share; without a package one per recipe."""
        return f"{compiler}:{' '.join(self.package)}" if self.package else f"{compiler}@{self.name}"

    def failure_rules(self, folder: Path) -> Path | None:
        return locate(folder, self.rules) if self.rules else None

    def spec(self) -> CommandSpec:
        rule = VersionRule(tuple(self.version.run), self.version.pattern) if self.version else None
        strict = self.parse_errors == "fail" or (self.parse_errors is None and not is_mlir(self.input))
        return CommandSpec(tuple(self.command), tuple(self.package), rule, strict)


def _is_name(text: str) -> bool:
    return VERSION not in text and canonicalize_name(text) == canonicalize_name(Requirement(text).name)
