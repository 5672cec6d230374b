"""IREE's knowledge about remedies."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from triage.compilers.analysis import OptionCatalog, RewriteNames
from triage.compilers.iree.devices import declaring_for, devices_named
from triage.compilers.iree.lint.program import lint_words
from triage.model.case import Case


class IreeRemedyHints:
    """Options, devices and names of the IREE family."""

    @property
    def options(self) -> OptionCatalog:
        return _options()

    @property
    def names(self) -> RewriteNames:
        words = lint_words()
        return RewriteNames(words.barrier, words.transfers, words.affinity)

    def devices_named(self, program: Path) -> frozenset[str]:
        return devices_named(program)

    def declaring(self, case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
        return declaring_for(case, devices)


@cache
def _options() -> OptionCatalog:
    data: dict[str, Any] = yaml.safe_load(files("triage.compilers.iree").joinpath("options.yaml").read_text("utf-8"))
    tables: dict[str, Any] = {
        name: {key: tuple(values) for key, values in data[name].items()} for name in ("backends", "phases")
    }
    names = ("first", "recomputes", "code_phase_prefixes", "never", "only_true")
    lists: dict[str, Any] = {name: tuple(data[name]) for name in names}
    return OptionCatalog(**tables, **lists, code_phase=data["code_phase"])
