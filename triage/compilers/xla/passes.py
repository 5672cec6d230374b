"""How XLA prints its HLO after each pass, the vocabulary of HLO, and the options that
remedies try.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from triage.compilers.invocation import Invocation, MlirTools
from triage.compilers.iree.passes import IreeIr
from triage.compilers.parts import OptionCatalog, RemedyHints, RewriteNames
from triage.mlir.fingerprint import Vocabulary
from triage.model.revision import Toolchain

_WORDS = Vocabulary(
    functions=frozenset({"func.func"}),
    inert=frozenset(
        f"hlo.{name}"
        for name in (
            "parameter",
            "constant",
            "tuple",
            "get-tuple-element",
            "bitcast",
            "copy",
        )
    ),
    constants=frozenset({"hlo.constant"}),
    descriptive=frozenset({"operand_precision", "algorithm", "is_scheduled"}),
)


class XlaIr(IreeIr):
    """How the compiler prints its HLO. It has no phases to stop after; the worker
    prints resource metrics with each compile.
    """

    @property
    def words(self) -> Vocabulary:
        return _WORDS

    def tools(self, toolchain: Toolchain) -> MlirTools | None:
        """Return the tools of IREE, which are installed with this program and read
        StableHLO.
        """
        package = find_spec("iree.compiler")
        if package and package.origin:
            place = Path(package.origin).parent
        else:
            place = None
        if place:
            optimizer = place / "_mlir_libs" / "iree-opt"
        else:
            optimizer = None
        if optimizer and optimizer.is_file():
            return MlirTools(optimizer, optimizer.parents[3], "iree.compiler")
        return None

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        return frozenset({"stablehlo", "chlo", "func"})

    def naming_pass(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, "--name-pass"))

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return invocation  # its passes are

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        return True

    def after_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        printing = (
            f"--print-after={only or 'all'}",
            *(["--generic"] if generic else []),
        )
        return replace(invocation, printing=(*invocation.printing, *printing))

    def metrics_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        return None


def remedy_hints() -> RemedyHints:
    """Options of the XLA family. Its programs name no devices."""
    options = yaml.safe_load(
        files("triage.compilers.xla").joinpath("options.yaml").read_text("utf-8")
    )
    names = RewriteNames("stablehlo.optimization_barrier", frozenset())
    return RemedyHints(
        TypeAdapter(OptionCatalog).validate_python(options),
        names,
        lambda _: frozenset(),
        lambda *_: None,
    )
