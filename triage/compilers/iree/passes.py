"""How IREE prints its IR, and the vocabulary of that IR."""

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

from triage.compilers.base import MlirTools
from triage.compilers.invocation import Invocation, flag_name
from triage.compilers.iree.adapter import output_of, python_root
from triage.compilers.iree.devices import is_gpu
from triage.compilers.iree.recipe import IREE
from triage.mlir.fingerprint import Vocabulary
from triage.mlir.tree import UnbalancedError, closing, entries, split
from triage.model.revision import Toolchain

# Before these phases the IR is the input; after them only the host's program remains.
_FIRST, _LAST = "global-optimization", "vm"
# Print types inline, and constants on at most a line.
_PLAIN = ("--mlir-print-local-scope", "--mlir-elide-elementsattrs-if-larger=16", "--mlir-elide-resource-strings-if-larger=16")
_GENERIC = "--mlir-print-op-generic"
_ONE_THREAD = "--mlir-disable-threading"
_NAME_PASS = ("--mlir-print-ir-after-failure", _ONE_THREAD, "--mlir-elide-elementsattrs-if-larger=16")


class IreeIr:
    """IR of the IREE family."""

    def tools(self, toolchain: Toolchain) -> MlirTools | None:
        optimizer = toolchain.program.with_name("iree-opt")
        if not optimizer.is_file():  # a build tree may hold the compiler alone
            return None
        return MlirTools(optimizer, python_root(toolchain.program), "iree.compiler")

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        tools = self.tools(toolchain)
        listed = output_of(tools.optimizer, "--show-dialects").partition(":")[2] if tools else ""
        return frozenset(name.strip() for name in listed.split(",") if name.strip())

    def naming_pass(self, invocation: Invocation) -> Invocation:
        return _printing(invocation, _NAME_PASS)

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return _printing(invocation, (_ONE_THREAD,))

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
            return footprint(lines, self.words.counts["dispatches"], gpu=is_gpu(backend))

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        filter_option = f"--mlir-print-ir-after={only}" if only else "--mlir-print-ir-after-all"
        # In one thread passes follow each other as they do in the source, and no two dumps are mixed.
        printing = (
            filter_option,
            "--mlir-print-ir-after-change",
            _ONE_THREAD,
            *_PLAIN,
            *([_GENERIC] if generic else []),
        )
        return replace(invocation, printing=(*invocation.printing, *printing))


def _printing(invocation: Invocation, extra: Sequence[str]) -> Invocation:
    """The same compile with the options that the recipe does not set."""
    names = {flag_name(option) for option in invocation.options}
    return replace(invocation, printing=(*invocation.printing, *(option for option in extra if flag_name(option) not in names)))


@cache
def _vocabulary() -> Vocabulary:
    words = yaml.safe_load(files("triage.compilers.iree").joinpath("vocabulary.yaml").read_text("utf-8"))
    return TypeAdapter(Vocabulary).validate_python(words)


_OPERATION = re.compile(r'^\s*(?:%[\w$.:, -]+ = )?"([\w$.-]+)"\(')
_GLOBALS = {"llvm.mlir.global": "global_type", "spirv.GlobalVariable": "type"}  # operation -> where its type stands
_SHARED = {"llvm.mlir.global": re.compile(r"\baddr_space = 3 : i32"), "spirv.GlobalVariable": re.compile(r", Workgroup>")}
_DIMENSION = re.compile(r"(\d{1,18}) ?x ?")
_SCALAR = re.compile(r"(?:[iu]|[su]i|f|bf|tf)(\d{1,18})|f(4|6|8)E\w+")


def footprint(lines: Iterable[str], dispatching: Collection[str], *, gpu: bool) -> dict[str, float]:
    """`dispatches`: operations of the host's program that start a kernel, one in a loop counted once. `shared_bytes`: the
    most that the workgroups of one kernel share, all buffers of a kernel added up; left out where a type's size is unknown, and
    for a target that has no such memory.

    dispatching: the operations that start a kernel.
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
        elif name in _GLOBALS and _SHARED[name].search(line):
            size = _global_bytes(line, _GLOBALS[name])
            kernels[-1] += size or 0
            unknown = unknown or size is None
    metrics = {"dispatches": float(dispatches)}
    return {**metrics, "shared_bytes": float(max(kernels))} if gpu and not unknown else metrics


def type_bytes(text: str) -> int | None:
    """The bytes that a value of an LLVM, SPIR-V or built-in type takes without padding between fields; None where that is
    not known.
    """
    text = text.strip()
    if scalar := _SCALAR.fullmatch(text):
        return (int(scalar[1] or scalar[2]) + 7) // 8
    name, bracket, rest = text.partition("<")
    if not bracket or not rest.endswith(">"):
        return None
    inside = rest[:-1].strip()
    match name.rpartition(".")[2]:
        case "ptr":
            return type_bytes(split(inside)[0])
        case "struct":
            if not inside.startswith("("):
                return None
            fields = [type_bytes(re.sub(r" \[\d+[^\]]*\]$", "", field)) for field in split(inside[1 : closing(inside, 0) - 1])]
            return None if None in fields else sum(field or 0 for field in fields)
        case "array" | "vector" | "!vector":
            sizes, position = [], 0
            inside = split(inside)[0]
            while match := _DIMENSION.match(inside, position):
                sizes.append(int(match[1]))
                position = match.end()
            element = type_bytes(inside[position:])
            return None if element is None or not sizes else prod(sizes) * element
    return None


def _global_bytes(line: str, key: str) -> int | None:
    begin = line.find("<{")
    try:
        properties = entries(line[begin + 2 : closing(line, begin) - 2]) if begin >= 0 else {}
        return type_bytes(properties[key]) if key in properties else None
    except UnbalancedError:
        return None
