"""Which format a recipe has, by its compiler family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from triage.recipes.format import RecipeFormat
from triage.recipes.kernel_format import TritonFormat
from triage.recipes.words import FAMILIES, TRITON

FORMATS: Mapping[str, type[RecipeFormat]] = MappingProxyType(
    {name: TritonFormat if name == TRITON.name else RecipeFormat for name in FAMILIES}
)
