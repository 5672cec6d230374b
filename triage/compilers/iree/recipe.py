"""The words of a recipe for IREE."""

from __future__ import annotations

from triage.model.case import InputKind
from triage.recipes.family import RecipeFamily

IREE = RecipeFamily(
    name="iree",
    nicknames=("iree-compile", "mlir"),
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
    sections=("run", "bench"),
    flag="--iree-opt-level=O3",
    keys="triage.compilers.iree.recipe_format:IreeFormat",
    inputs={
        ".mlir": InputKind.MLIR,
        ".mlirbc": InputKind.BYTECODE,
        ".onnx": InputKind.ONNX,
        ".py": InputKind.GENERATOR,
    },
)
