"""How IREE's IR is made to be printed, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from triage.compilers.iree.footprint import footprint
from triage.compilers.iree.placement import IreePlacement
from triage.compilers.port import Invocation
from triage.compilers.vocabulary import Vocabulary
from triage.model.revision import Toolchain
from triage.recipes.words import IREE

# Before them the IR is what was given; after them it is the host's program alone.
_FIRST, _LAST = "global-optimization", "vm"
# Types spelled out where they stand, and constants of no more than a line.
_PLAIN = ("--mlir-print-local-scope", "--mlir-elide-elementsattrs-if-larger=16", "--mlir-elide-resource-strings-if-larger=16")
_GENERIC = "--mlir-print-op-generic"


class IreeIr:
    """IR of the IREE family."""

    @property
    def words(self) -> Vocabulary:
        return _vocabulary()

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        return {"mlir-print-ir-after-all", "mlir-print-ir-after-change"} <= toolchain.capabilities.flags

    def phases(self, toolchain: Toolchain, last: str | None) -> tuple[str, ...]:
        compared = IREE.phases[IREE.phases.index(_FIRST) : IREE.phases.index(_LAST) + 1]
        known = [phase for phase in compared if phase in toolchain.capabilities.phases]
        return tuple(known[: known.index(last) + 1] if last in known else known)

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        options = (*(text for text in invocation.options if not text.startswith("--compile-to")), f"--compile-to={phase}")
        return replace(invocation, options=options, printing=(*invocation.printing, *_PLAIN, _GENERIC))

    def footprint_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        known = self.phases(toolchain, last)
        return next((phase for phase in ("executable-targets", "stream") if phase in known), None)

    def footprint(self, printed: Path, backend: str) -> Mapping[str, float]:
        with printed.open(encoding="utf-8", errors="replace") as lines:
            return footprint(lines, self.words.counts["dispatches"], gpu=IreePlacement().gpu(backend))

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        which = f"--mlir-print-ir-after={only}" if only else "--mlir-print-ir-after-all"
        # In one thread passes follow each other as they do in the source, and no two dumps are mixed.
        printing = (
            which,
            "--mlir-print-ir-after-change",
            "--mlir-disable-threading",
            *_PLAIN,
            *([_GENERIC] if generic else []),
        )
        return replace(invocation, printing=(*invocation.printing, *printing))


@cache
def _vocabulary() -> Vocabulary:
    told: dict[str, Any] = yaml.safe_load(files("triage.compilers.iree").joinpath("vocabulary.yaml").read_text("utf-8"))
    return Vocabulary(
        functions=frozenset(told["functions"]),
        executables=frozenset(told["executables"]),
        inert=frozenset(told["inert"]),
        bookkeeping=re.compile(told["bookkeeping"]),
        operations=told["operations"],
        passes=told["passes"],
        spellings=tuple((re.compile(pattern), replacement) for pattern, replacement in told["spellings"]),
        decisions=tuple(told["decisions"]),
        counts={name: frozenset(operations) for name, operations in told["counts"].items()},
        allocates=frozenset(told["allocates"]),
        shared=re.compile(told["shared"]),
        sources={name: tuple(paths) for name, paths in told["sources"].items()},
    )
