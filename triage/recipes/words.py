"""The words each compiler family understands in a recipe: backends, phases and kinds of input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from triage.model.case import InputKind


@dataclass(frozen=True, slots=True)
class Family:
    """What a recipe for one compiler may say.

    backends, phases: in the order they are shown; empty backends means that any word will do, empty phases that the
    compiler cannot stop early. aliases: words people write for a backend -> the word to write.
    inputs: suffix -> kind; any_input: other suffixes are handed over as they are.
    sections: keys of the family's own in which a matrix fills in its values.
    """

    name: str
    backends: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    inputs: Mapping[str, InputKind] = field(default_factory=dict)
    any_input: bool = False
    sections: tuple[str, ...] = ()

    def kind_of(self, suffix: str) -> InputKind | None:
        """The kind of an input with that suffix (with its dot), None where the family has no use for it."""
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)


_MLIR_INPUTS = MappingProxyType(
    {
        ".mlir": InputKind.MLIR,
        ".mlirbc": InputKind.BYTECODE,
        ".onnx": InputKind.ONNX,
        ".py": InputKind.GENERATOR,
    }
)

IREE = Family(
    name="iree",
    backends=(
        "cuda",
        "llvm-cpu",
        "metal-spirv",
        "rocm",
        "vmvx",
        "vmvx-inline",
        "vulkan-spirv",
        "webgpu-spirv",
    ),
    aliases={
        "amd": "rocm",
        "amdgpu": "rocm",
        "cpu": "llvm-cpu",
        "hip": "rocm",
        "host": "llvm-cpu",
        "llvm": "llvm-cpu",
        "local": "llvm-cpu",
        "metal": "metal-spirv",
        "nvidia": "cuda",
        "nvptx": "cuda",
        "spirv": "vulkan-spirv",
        "vulkan": "vulkan-spirv",
        "webgpu": "webgpu-spirv",
    },
    phases=(
        "input",
        "abi",
        "preprocessing",
        "global-optimization",
        "dispatch-creation",
        "flow",
        "stream",
        "executable-sources",
        "executable-configurations",
        "executable-targets",
        "hal",
        "vm",
        "end",
    ),
    inputs=_MLIR_INPUTS,
)

TRITON = Family(
    name="triton",
    backends=("cuda", "hip"),
    aliases={"amd": "hip", "nvidia": "cuda", "rocm": "hip"},
    phases=("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco"),
    # A kernel is compiled, not run to print an input, so it is no generator.
    # The IR is what a release wrote: for that release, and for its neighbours with luck.
    inputs={".py": InputKind.OTHER, ".ttir": InputKind.OTHER, ".ttgir": InputKind.OTHER},
    sections=("kernel", "signature", "constexprs", "hints", "options"),
)

# What is compiled may well be Python or ONNX, so everything is handed over as it is.
COMMAND = Family(
    name="command",
    inputs={".mlir": InputKind.MLIR, ".mlirbc": InputKind.BYTECODE},
    any_input=True,
    sections=("command",),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in (IREE, TRITON, COMMAND)})
