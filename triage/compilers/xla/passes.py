"""How XLA prints its HLO after each pass, the vocabulary of HLO, and the options that remedies try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from triage.compilers.invocation import Invocation, MlirTools
from triage.compilers.parts import OptionCatalog, RemedyHints, RewriteNames
from triage.mlir.fingerprint import Vocabulary
from triage.model.revision import Toolchain

_INERT = frozenset(f"hlo.{name}" for name in ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy"))


class XlaIr:
    """How the compiler prints its HLO; IREE's tools, which are installed with this program, read StableHLO."""

    words = Vocabulary(
        functions=frozenset({"func.func"}),
        inert=_INERT,
        constants=frozenset({"hlo.constant"}),
        descriptive=frozenset({"operand_precision", "algorithm", "is_scheduled", "value"}),
    )
    """The names of its operations, types and passes."""

    def tools(self, toolchain: Toolchain) -> MlirTools | None:
        """Return tools that read StableHLO."""
        package = find_spec("iree.compiler")
        place = Path(package.origin).parent if package and package.origin else None
        optimizer = place / "_mlir_libs" / "iree-opt" if place else None
        return MlirTools(optimizer, optimizer.parents[3], "iree.compiler") if optimizer and optimizer.is_file() else None

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        """Return the MLIR dialects that programs may contain."""
        return frozenset({"stablehlo", "chlo", "func"})

    def naming_pass(self, invocation: Invocation) -> Invocation:
        """Return the same compile, printing which pass failed."""
        return replace(invocation, printing=(*invocation.printing, "--name-pass"))

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        """Return the same compile: the passes run on one thread."""
        return invocation

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        """Return True: every release can dump its HLO."""
        return True

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """Return the same compile: it has no phases to stop after."""
        return invocation

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        """Return the same compile, printing the HLO after each pass that changed it, or after the one pass `only`."""
        printing = (f"--print-after={only or 'all'}", *(["--generic"] if generic else []))
        return replace(invocation, printing=(*invocation.printing, *printing))

    def metrics_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        """Return nothing: the worker prints resource metrics with each compile."""
        return None

    def resource_metrics(self, printed: Path, backend: str) -> Mapping[str, float]:
        """Return nothing, see `metrics_phase`."""
        return {}


def remedy_hints() -> RemedyHints:
    """Options of the XLA family. Its programs name no devices."""
    options = yaml.safe_load(files("triage.compilers.xla").joinpath("options.yaml").read_text("utf-8"))
    names = RewriteNames("stablehlo.optimization_barrier", frozenset())
    return RemedyHints(TypeAdapter(OptionCatalog).validate_python(options), names, lambda _: frozenset(), lambda *_: None)
