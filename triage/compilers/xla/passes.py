"""How XLA prints its HLO after each pass, the vocabulary of HLO, and the options that
remedies try.
"""

from __future__ import annotations

from dataclasses import replace

from triage.compilers.invocation import Invocation
from triage.compilers.parts import IrPrinter, RemedyHints, RewriteNames
from triage.mlir.fingerprint import Vocabulary

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


class XlaIr(IrPrinter):
    """How the compiler prints its HLO."""

    vocabulary = _WORDS

    def naming_failed_pass(self, invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, "--name-pass"))

    def printing_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        printing = (
            f"--print-after={only or 'all'}",
            *(["--generic"] if generic else []),
        )
        return replace(invocation, printing=(*invocation.printing, *printing))


class XlaRemedies(RemedyHints):
    """Options of XLA, and the names of StableHLO."""

    rewrite_names = RewriteNames("stablehlo.optimization_barrier", frozenset())
