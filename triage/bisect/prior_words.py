"""Words of diagnostics, subjects and file names, made comparable."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triage.bisect.prior_tables import stem

# Too common in compiler diagnostics, or in the subjects of a compiler's commits, to connect the two.
_COMMON = frozenset(
    stem(word)
    for word in [
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "not",
        "into",
        "all",
        "some",
        "via",
        "when",
        "after",
        "before",
        "due",
        "only",
        "more",
        "one",
        "use",
        "using",
        "used",
        "new",
        "old",
        "add",
        "adds",
        "added",
        "make",
        "made",
        "support",
        "error",
        "errors",
        "failed",
        "failure",
        "fail",
        "fails",
        "failing",
        "compile",
        "compiler",
        "compilation",
        "compiling",
        "module",
        "function",
        "func",
        "main",
        "program",
        "input",
        "output",
        "value",
        "values",
        "type",
        "types",
        "tensor",
        "op",
        "ops",
        "operation",
        "operations",
        "pass",
        "passes",
        "target",
        "backend",
        "backends",
        "model",
        "models",
        "test",
        "tests",
        "regression",
        "regressions",
        "iree",
        "mlir",
        "llvm",
        "triton",
        "cpp",
        "lib",
        "src",
        "hal",
        "torch",
        "onnx",
        "aten",
        "dispatch",
        "codegen",
        "gpu",
        "cpu",
        "llvmgpu",
        "llvmcpu",
        "utils",
        "util",
        "config",
        "large",
        "small",
        "size",
        "run",
        "device",
        "host",
    ]
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


def topics(text: str, synonyms: Mapping[str, str]) -> frozenset[str]:
    """The stems in text, CamelCase and snake_case taken apart, and the topics they stand for."""
    stems = {stem(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))}
    some = {one for one in stems if len(one) > 2 and one not in _COMMON}
    return frozenset(some | {synonyms[one] for one in stems if one in synonyms})


def letters(name: str) -> str:
    """A pass or file name with all that spellings differ in taken away: `GPUPadOperandsPass`, `gpu_pad_operands.mlir` and
    `gpu-pad-operands` become `gpupadoperands`.
    """
    name = name.rsplit("/", 1)[-1]
    name = re.sub(r"\.[a-z]{1,4}$", "", name)
    flat = re.sub(r"[^a-z0-9]", "", name.lower())
    return flat.removesuffix("pass")


def same_name(one: str, other: str) -> bool:
    """Whether two names as `letters` makes them are one pass's: equal, or one with a prefix (a dialect, a tool)."""
    shorter = min(len(one), len(other))
    return one == other or (shorter >= 8 and (one.endswith(other) or other.endswith(one)))
