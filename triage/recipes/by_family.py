"""Which format a recipe has, by its compiler family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from triage.recipes.command_format import CommandFormat
from triage.recipes.format import RecipeFormat
from triage.recipes.kernel_format import TritonFormat
from triage.recipes.words import COMMAND, IREE, TRITON

FORMATS: Mapping[str, type[RecipeFormat]] = MappingProxyType(
    {IREE.name: RecipeFormat, TRITON.name: TritonFormat, COMMAND.name: CommandFormat}
)
