"""What a recipe says of a compiler behind a command, beyond what every recipe says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from triage.config.schema import MappingFormat
from triage.config.suggestions import did_you_mean
from triage.config.values import advice, as_list, as_text, as_written
from triage.model.case import CommandSpec, VersionRule
from triage.recipes.fields import setting
from triage.recipes.files import locate
from triage.recipes.format import RecipeFormat, TargetFormat
from triage.recipes.words import COMMAND

_PLACES = ("input", "output", "toolchain", "python", "site_packages", "flags")
_LISTED = ", ".join(f"{{{name}}}" for name in _PLACES)
_PLACE = re.compile(r"\{(\w+)\}")
_TEXT = {"type": "string", "pattern": r"\S"}


def _word(value: Any) -> str:
    text = as_written(value)
    unknown = next((name for name in _PLACE.findall(text.replace("${", "")) if name not in _PLACES), None)
    if unknown is not None:
        raise advice(f'"{{{unknown}}}" stands for nothing{did_you_mean(unknown, _PLACES)} There is: {_LISTED}.')
    return text


def _requirement(value: Any) -> str:
    text = as_text(value)
    try:
        Requirement(text)
    except InvalidRequirement:
        raise advice(
            f'"{text}" is no requirement: write a name such as cython, or one with bounds such as "numpy<2".'
        ) from None
    return text


def _pattern(value: Any) -> str:
    text = as_text(value)
    try:
        re.compile(text)
    except re.error as error:
        raise advice(f'"{text}" is no regular expression: {error}.') from None
    return text


def _there(value: Any, info: Any) -> str:
    text = as_text(value)
    folder = setting(info).folder
    if folder is not None and not (folder / text).is_file():
        raise advice(f'there is no file "{text}"; paths count from the recipe\'s own folder.')
    return text


_Words = Annotated[list[Annotated[str, BeforeValidator(_word), WithJsonSchema(_TEXT)]], Field(min_length=1)]


class VersionFormat(MappingFormat):
    """How a compiler in a folder tells its version."""

    noun: ClassVar[str] = "version"

    run: _Words = Field(description="What to run.", examples=[["{toolchain}/bin/mlir-opt", "--version"]])
    pattern: Annotated[str, BeforeValidator(_pattern), WithJsonSchema(_TEXT)] = Field(
        default=r"\d+(?:\.\d+)+", description="What it is in the output; a group where there is one."
    )


class CommandFormat(RecipeFormat):
    """Any compiler that is run by a command."""

    target: TargetFormat = Field(
        default_factory=lambda: TargetFormat.model_construct(backend="host"), description="What is compiled for; only told."
    )
    command: _Words = Field(
        description=f"Program and arguments; {_LISTED} are filled in.",
        examples=[["{python}", "-m", "cython", "{input}", "-o", "{output}"]],
    )
    package: Annotated[
        list[Annotated[str, BeforeValidator(_requirement), WithJsonSchema(_TEXT)]],
        BeforeValidator(as_list),
        Field(min_length=1),
    ] = Field(
        default=[],
        validate_default=False,
        description="Package whose releases are the timeline; further requirements beside it.",
        examples=["cython", ["numba", "numpy<2"]],
    )
    version: VersionFormat | None = Field(default=None, description="How a compiler that is no package tells its version.")
    rules: Annotated[str, BeforeValidator(_there), WithJsonSchema(_TEXT)] | None = Field(
        default=None, description="A file of failure rules of your own, which go before the packaged ones."
    )

    @model_validator(mode="after")
    def _one_compiler(self) -> Self:
        if self.phase is not None:
            raise advice('compiler "command" cannot stop after a phase; remove the key.', "phase")
        if self.package and not _is_name(self.package[0]):
            name = self.package[0]
            said = f"{name} has bounds, and the first package decides which releases there are: write its name."
            raise advice(said, "package")
        if self.package and self.version is not None:
            raise advice("a package tells its version itself; remove the key.", "version")
        return self

    def family(self) -> str:
        """One for each package, so that recipes share its toolchains; one for each recipe without."""
        return f"{COMMAND.name}:{' '.join(self.package)}" if self.package else f"{COMMAND.name}@{self.name}"

    def failure_rules(self, folder: Path) -> Path | None:
        return locate(folder, self.rules) if self.rules else None

    def spec(self) -> CommandSpec:
        rule = VersionRule(tuple(self.version.run), self.version.pattern) if self.version else None
        return CommandSpec(tuple(self.command), tuple(self.package), rule)


def _is_name(text: str) -> bool:
    return canonicalize_name(text) == canonicalize_name(Requirement(text).name)
