"""Make XLA print its HLO after each pass, and say which names matter in it."""

from __future__ import annotations

from dataclasses import replace

from triage.compilers.invocation import Invocation
from triage.compilers.parts import IrPrinter, RemedyHints
from triage.mlir.fingerprint import Vocabulary

_VOCABULARY = Vocabulary(
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


class XlaIr(IrPrinter):
    """Makes the worker print HLO."""

    vocabulary = _VOCABULARY

    def naming_failed_pass(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, "--name-pass"))

    def printing_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        printing = [*invocation.printing, f"--print-after={only or 'all'}"]
        if generic:
            printing.append("--generic")
        return replace(invocation, printing=tuple(printing))


class XlaRemedies(RemedyHints):
    """Tries the options in the `options.yaml` next to this module."""
