"""The recipe keys of a kernel in Triton."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from triage.compilers.base import Constant, KernelSpec, read_constant
from triage.model.case import Case, InputKind
from triage.model.fields import Check, Text, file_key, fits
from triage.recipes.recipe import Recipe

_TYPE = (
    r"\s*(\**(k?[iu](1|8|16|32|64)|fp(8\w*|16|32|64)|bf16|f(16|32|64)|tensordesc<.+>"
    r"|nvTmaDesc))\s*(:\s*(16)?\s*)?"
)

_Name = Annotated[
    str, fits(r"[A-Za-z_]\w*", '"{text}" is not a name of an argument or option.')
]
_Hint = Annotated[
    str,
    fits(
        "divisibility|pointer_range",
        '"{text}" is not a hint: write divisibility or pointer_range.',
    ),
]
_ADVICE = (
    '"{text}" is not an argument type: write "*fp16", i32, or "*bf16:16" for one '
    "divisible by 16."
)
_Constant = Annotated[
    Constant,
    Check(lambda text, _: read_constant(text), reads=str),
]
_HintValue = Annotated[int, Field(ge=0, lt=10**6)]


@dataclass(frozen=True, kw_only=True)
class TritonRecipe(Recipe):
    """A kernel, compiled ahead of time."""

    kernel: _Name | None = file_key(
        None, "The kernel function; optional when the file has only one."
    )
    signature: dict[_Name, Annotated[Text, fits(_TYPE, _ADVICE)]] | None = file_key(
        None,
        "Type of each argument that is not a constexpr; a trailing `:16` means "
        "divisible by 16.",
        {"x_ptr": "*fp16:16", "n": "i32"},
    )
    constexprs: dict[_Name, _Constant] | None = file_key(
        None,
        "Values of the constexprs; write a type as tl.float16.",
        {"BLOCK": 64},
    )
    hints: dict[_Name, dict[_Hint, _HintValue]] | None = file_key(
        None,
        "Further facts about arguments.",
        {"x_ptr": {"divisibility": 16, "pointer_range": 32}},
    )
    options: dict[_Name, _Constant] | None = file_key(
        None, "Launch options.", {"num_warps": 8, "num_stages": 3}
    )

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.flags:
            yield "flags", "Triton has no flags: write launch options under `options`."
        if self.target.devices is not None:
            yield "target", "a kernel is compiled for one device; remove `devices`."
        signature = self.signature or {}
        for name in signature.keys() & (self.constexprs or {}).keys():
            yield (
                "constexprs",
                f'"{name}" has a type in signature and a value here; remove one of '
                "them.",
            )
        for name in (self.hints or {}).keys() - signature.keys():
            yield "hints", f'"{name}" is not an argument of signature.'

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with what its kernel is compiled for."""
        hints = {name: dict(values) for name, values in (self.hints or {}).items()}
        types: dict[str, str] = {}
        for name, text in (self.signature or {}).items():
            kind, _, divisibility = (part.strip() for part in text.partition(":"))
            types[name] = kind
            if divisibility:
                hints.setdefault(name, {}).setdefault("divisibility", int(divisibility))
        spec = KernelSpec(
            self.kernel, types, self.constexprs or {}, hints, self.options or {}
        )
        return replace(case, spec=spec)
