"""The recipe that `triage recipe new` starts from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import Template

from triage.model.errors import BadFiles
from triage.recipes.loader import check_recipe
from triage.recipes.starter_kernel import KernelGuess

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./][A-Za-z0-9_./-]*)*")
# Words that YAML 1.1 reads as truth values or as nothing.
_TRAPS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def new_recipe(
    name: str,
    input: str,  # noqa: A002  the recipe's own word for it
    backend: str,
    chip: str | None = None,
    *,
    summary: str = "",
    compiler: str = "iree",
    devices: int | None = None,
    args: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    phase: str | None = None,
    kernel: KernelGuess | None = None,
) -> str:
    """YAML text of a recipe with comments on what else it may hold. `input` is written as given. kernel: of Triton, whatever
    `compiler` says.

    Raises BadFiles when a value is none that a recipe may hold; whether the input exists is not looked at.
    """
    target = [f"backend: {_scalar(backend)}"]
    if chip is not None:
        target.append(f"chip: {_scalar(chip)}")
    if devices is not None:
        target.append(f"devices: {devices}")
    lines = [
        f"name: {_scalar(name)}",
        f"summary: {_scalar(summary or f'{name} on {chip or backend}')}",
        f"compiler: {_scalar('triton' if kernel else compiler)}",
        f"input: {_scalar(input)}",
    ]
    if args:
        lines.append("args: {" + ", ".join(f"{key}: {_scalar(value)}" for key, value in args.items()) + "}")
    if kernel:
        lines += _kernel_lines(kernel)
    lines.append("target: {" + ", ".join(target) + "}")
    if flags:
        lines += ["flags:", *(f"  - {json.dumps(flag, ensure_ascii=False)}" for flag in flags)]
    if phase is not None:
        lines.append(f"phase: {_scalar(phase)}")
    lines.append("limits: {timeout: 120s, memory: 8GiB}")
    # What is said already is not offered again, and Triton has no flags.
    offers = ["" if flags or kernel else _FLAGS, "" if phase else _PHASE, _MATRIX, _EXPECT]
    known = _OF_TRITON if kernel else _OF_IREE
    text = "\n".join([*lines, *(f"\n{Template(offer).substitute(known)}" for offer in offers if offer), ""])
    problems = check_recipe("new recipe", text)
    if problems:
        raise BadFiles(problems)
    return text


_FLAGS = """\
# Compiler flags; the second form only for versions from `since` on and before `until`.
# flags:
#   - "--iree-opt-level=O3"
#   - {flag: "--iree-x=y", since: "3.5.0", until: "3.9.0"}"""
_PHASE = """\
# Stop after this phase instead of compiling to the end.
# phase: $stage"""
_MATRIX = """\
# One case for each value; $${$key} is filled in within $places.
# matrix: {$key: [$values]}"""
_EXPECT = """\
# Failures that are known, so that only changes are news. until: the first version without it.
# expect:
#   - {failure: shared-memory-overflow, since: "3.1.0", until: "3.8.0", issue: "owner/repo#123"}"""
_OF_IREE = {"stage": "executable-targets", "key": "dtype", "values": "f16, f32", "places": "input, args, flags and target"}
_OF_TRITON = {
    "stage": "ttgir",
    "key": "num_warps",
    "values": "4, 8",
    "places": "options, constexprs, signature and target",
}


def _kernel_lines(kernel: KernelGuess) -> list[str]:
    """What a recipe says of a kernel, with a note that it is a guess."""
    lines = [f"kernel: {kernel.name}"] if kernel.several else []
    given = [f"  {name}: {json.dumps(kind)}" for name, kind in kernel.signature.items()]
    lines += ["# Guessed from how the kernel uses them: `*` is a pointer, :16 says divisible by 16.", "signature:", *given]
    for key, values in (("constexprs", kernel.constexprs), ("options", kernel.options)):
        if values:
            lines.append(f"{key}: {{{', '.join(f'{name}: {json.dumps(value)}' for name, value in values.items())}}}")
    return lines


def _scalar(text: str) -> str:
    """A text in YAML, in quotes unless it is plainly a word."""
    if _PLAIN.fullmatch(text) and text.lower() not in _TRAPS:
        return text
    return json.dumps(text, ensure_ascii=False)
