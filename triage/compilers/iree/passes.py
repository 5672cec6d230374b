"""How IREE prints its IR, and the vocabulary of that IR."""

from __future__ import annotations

from functools import cached_property

from triage.compilers.invocation import Invocation
from triage.compilers.iree.targets import with_printing
from triage.compilers.parts import IrPrinter, family_yaml
from triage.mlir.fingerprint import Vocabulary
from triage.model.revision import Toolchain

_ELIDED = "--mlir-elide-elementsattrs-if-larger=16"
# Print types inline, and constants on at most a line.
_PLAIN = (
    "--mlir-print-local-scope",
    _ELIDED,
    "--mlir-elide-resource-strings-if-larger=16",
)
_ONE_THREAD = "--mlir-disable-threading"


class IreeIr(IrPrinter):
    """How the compiler prints its IR."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from pydantic import TypeAdapter  # slow to import

        words = family_yaml(type(self), "vocabulary.yaml")
        return TypeAdapter(Vocabulary).validate_python(words)

    def is_supported_by(self, toolchain: Toolchain) -> bool:
        needed = {"mlir-print-ir-after-all", "mlir-print-ir-after-change"}
        return needed <= toolchain.capabilities.flags

    def naming_failed_pass(self, invocation: Invocation) -> Invocation:
        return with_printing(
            invocation, "--mlir-print-ir-after-failure", _ONE_THREAD, _ELIDED
        )

    def printing_passes(self, invocation: Invocation) -> Invocation:
        # In one thread passes follow each other as they do in the source, and no two
        # dumps are mixed.
        return with_printing(
            invocation,
            "--mlir-print-ir-after-all",
            "--mlir-print-ir-after-change",
            "--mlir-print-op-generic",
            _ONE_THREAD,
            *_PLAIN,
        )
