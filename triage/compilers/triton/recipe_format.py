"""The recipe keys of a kernel in Triton."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from triage.compilers.base import Constant, KernelSpec, read_constant
from triage.model.case import Case
from triage.model.checks import SCALAR, Text, fits
from triage.recipes.mapping import AtKey, OneValue
from triage.recipes.recipe import RecipeFormat

_TYPE = (
    r"\s*(\**(k?[iu](1|8|16|32|64)|fp(8\w*|16|32|64)|bf16|f(16|32|64)|tensordesc<.+>"
    r"|nvTmaDesc))\s*(:\s*(1|16)?\s*)?"
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
    BeforeValidator(read_constant),
    OneValue,
    WithJsonSchema({"type": [*SCALAR["type"], "null"]}),
]


class TritonFormat(RecipeFormat):
    """A kernel, compiled ahead of time."""

    kernel: _Name | None = Field(
        None,
        description="The kernel function; optional when the file has only one.",
    )
    signature: dict[_Name, Annotated[Text, fits(_TYPE, _ADVICE)]] = Field(
        {},
        description=(
            "Type of each argument that is not a constexpr; a trailing `:16` means "
            "divisible by 16."
        ),
        examples=[{"x_ptr": "*fp16:16", "n": "i32"}],
    )
    constexprs: dict[_Name, _Constant] = Field(
        {},
        description="Values of the constexprs; write a type as tl.float16.",
        examples=[{"BLOCK": 64}],
    )
    hints: dict[_Name, dict[_Hint, Annotated[int, Field(ge=0, lt=10**6)]]] = Field(
        {},
        description="Further facts about arguments.",
        examples=[{"x_ptr": {"divisibility": 16, "pointer_range": 32}}],
    )
    options: dict[_Name, _Constant] = Field(
        {},
        description="Launch options.",
        examples=[{"num_warps": 8, "num_stages": 3}],
    )

    @model_validator(mode="after")
    def _nothing_of_others(self) -> Self:
        if self.flags:
            raise AtKey(
                "flags", "Triton has no flags: write launch options under `options`."
            )
        if self.target.devices is not None:
            raise AtKey(
                "target", "a kernel is compiled for one device; remove `devices`."
            )
        for name in self.signature:
            if name in self.constexprs:
                raise AtKey(
                    "constexprs",
                    (
                        f'"{name}" has a type in signature and a value here; remove '
                        "one of them."
                    ),
                )
        for name in self.hints:
            if name not in self.signature:
                raise AtKey("hints", f'"{name}" is not an argument of signature.')
        return self

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with what its kernel is compiled for."""
        hints = {name: dict(values) for name, values in self.hints.items()}
        types: dict[str, str] = {}
        for name, text in self.signature.items():
            kind, _, divisibility = (part.strip() for part in text.partition(":"))
            types[name] = kind
            if divisibility:
                hints.setdefault(name, {}).setdefault("divisibility", int(divisibility))
        return replace(
            case,
            spec=KernelSpec(self.kernel, types, self.constexprs, hints, self.options),
        )
