"""How IREE prints its IR, and the vocabulary of that IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

import yaml
from pydantic import TypeAdapter

from triage.compilers.invocation import Invocation, flag_name
from triage.compilers.parts import IrPrinter
from triage.mlir.fingerprint import Vocabulary
from triage.model.revision import Toolchain

_ELIDED = "--mlir-elide-elementsattrs-if-larger=16"
# Print types inline, and constants on at most a line.
_PLAIN = (
    "--mlir-print-local-scope",
    _ELIDED,
    "--mlir-elide-resource-strings-if-larger=16",
)
_GENERIC = "--mlir-print-op-generic"
_ONE_THREAD = "--mlir-disable-threading"


class IreeIr(IrPrinter):
    """How the compiler prints its IR."""

    def naming_failed_pass(self, invocation: Invocation) -> Invocation:
        return _with_printing(
            invocation, ("--mlir-print-ir-after-failure", _ONE_THREAD, _ELIDED)
        )

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return _with_printing(invocation, (_ONE_THREAD,))

    @property
    def vocabulary(self) -> Vocabulary:
        return _vocabulary()

    def is_supported_by(self, toolchain: Toolchain) -> bool:
        return {
            "mlir-print-ir-after-all",
            "mlir-print-ir-after-change",
        } <= toolchain.capabilities.flags

    def printing_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        if only:
            chosen = f"--mlir-print-ir-after={only}"
        else:
            chosen = "--mlir-print-ir-after-all"
        # In one thread passes follow each other as they do in the source, and no two
        # dumps are mixed.
        printing = (
            chosen,
            "--mlir-print-ir-after-change",
            _ONE_THREAD,
            *_PLAIN,
            *([_GENERIC] if generic else []),
        )
        return replace(invocation, printing=(*invocation.printing, *printing))


def _with_printing(invocation: Invocation, extra: Sequence[str]) -> Invocation:
    """Return the same compile with the options that the recipe does not set."""
    names = {flag_name(option) for option in invocation.options}
    return replace(
        invocation,
        printing=(
            *invocation.printing,
            *(option for option in extra if flag_name(option) not in names),
        ),
    )


@cache
def _vocabulary() -> Vocabulary:
    words = yaml.safe_load(
        files("triage.compilers.iree").joinpath("vocabulary.yaml").read_text("utf-8")
    )
    return TypeAdapter(Vocabulary).validate_python(words)
