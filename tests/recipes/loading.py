"""Recipes of the known compiler families."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from triage.compilers.registry import recipe_families
from triage.model.case import Case
from triage.recipes import loader


def load_recipes(
    paths: Sequence[Path], failure_names: Collection[str] = ()
) -> tuple[Case, ...]:
    return loader.load_recipes(paths, recipe_families(), lambda: failure_names)
