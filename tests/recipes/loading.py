"""Recipes of the known compiler families."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from triage.compilers.registry import RecipesByFamily
from triage.model.case import Case
from triage.model.outcome import Failed, Failure, Passed, Probe
from triage.model.revision import Revision
from triage.recipes import loader


def load_recipes(
    paths: Sequence[Path], failure_names: Collection[str] = ()
) -> tuple[Case, ...]:
    return loader.load_recipes(paths, RecipesByFamily(), lambda: failure_names)


def ended(case: Case, failure: Failure | None, version: str | None = "3.9.0") -> Probe:
    outcome = Failed(failure) if failure else Passed()
    return Probe(case, Revision(version or "here"), version, outcome)
