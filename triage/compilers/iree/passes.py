"""How IREE prints its IR, the vocabulary of that IR, and the resources that it
shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import prod
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from triage.compilers.invocation import Invocation, flag_name
from triage.compilers.iree.devices import is_gpu
from triage.compilers.parts import IrPrinter, Resources
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


class IreeResources(Resources):
    """Kernels and their shared memory."""

    def stopped_after(self, invocation: Invocation, phase: str) -> Invocation:
        others = [
            text for text in invocation.options if not text.startswith("--compile-to")
        ]
        return replace(
            invocation,
            options=(*others, f"--compile-to={phase}"),
            printing=(*invocation.printing, *_PLAIN, _GENERIC),
        )

    def best_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        reached = toolchain.capabilities.phases
        if last in reached:
            reached = reached[: reached.index(last) + 1]
        return next(
            (phase for phase in ("executable-targets", "stream") if phase in reached),
            None,
        )

    def metrics(self, printed: Path, backend: str) -> Mapping[str, float]:
        with printed.open(encoding="utf-8", errors="replace") as lines:
            return resource_metrics(
                lines, _vocabulary().counts["dispatches"], gpu=is_gpu(backend)
            )


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


_OPERATION = re.compile(r'^\s*(?:%[\w$.:, -]+ = )?"([\w$.-]+)"\(')
# Operation that declares a global -> what marks memory that a workgroup shares.
_GLOBALS = {
    "llvm.mlir.global": "addr_space = 3 : i32",
    "spirv.GlobalVariable": ", Workgroup>",
}
_TYPE = re.compile(r"\b(?:global_)?type = (.*?)(?:, \w+ = |\}>)")
_DIMENSION = re.compile(r"(\d{1,18}) ?x ?(?=[\w!])")
_SCALAR = re.compile(
    r"(?:^|(?<=[ <(x]))(?:(?:[su]?i|b?f|tf)(\d{1,3})|f([468])E\w+)(?=[>), ]|$)"
)


def resource_metrics(
    lines: Iterable[str], dispatching: Collection[str], *, gpu: bool
) -> dict[str, float]:
    """Count `dispatches`, the operations of the host's program that start a kernel, and
    `shared_bytes`, the most that the workgroups of one kernel share. The latter is left
    out where a type's size is unknown, and for a target without it.

    `dispatching` are the operations that start a kernel.
    """
    dispatches, kernels, unknown = 0, [0], False
    for line in lines:
        match = _OPERATION.match(line)
        if match is None:
            continue
        name = match[1]
        if name in dispatching:
            dispatches += 1
        elif name == "builtin.module":  # each kernel has one of its own
            kernels.append(0)
        elif name in _GLOBALS and _GLOBALS[name] in line:
            type_ = _TYPE.search(line)
            if type_:
                size = _type_bytes(type_[1])
            else:
                size = None
            kernels[-1] += size or 0
            unknown = unknown or size is None
    metrics = {"dispatches": float(dispatches)}
    if gpu and not unknown:
        return {**metrics, "shared_bytes": float(max(kernels))}
    return metrics


def _type_bytes(text: str) -> int | None:
    """Return the bytes that nested arrays and vectors of one element type take; None if
    they are not known.
    """
    sizes = [int(bits or eighths) for bits, eighths in _SCALAR.findall(text)]
    if len(sizes) == 1:
        return prod(map(int, _DIMENSION.findall(text))) * ((sizes[0] + 7) // 8)
    return None
