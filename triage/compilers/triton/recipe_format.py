"""The recipe keys of a Triton kernel."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from triage.compilers.base import Constant, KernelSpec
from triage.recipes.document import Written
from triage.recipes.matrix import has_placeholder
from triage.recipes.schema import RecipeFormat
from triage.recipes.values import advice, as_text, as_written

_ARGUMENT = re.compile(r"[A-Za-z_]\w*")
_TYPE = re.compile(r"\**(?:k?[iu](?:1|8|16|32|64)|fp(?:8\w*|16|32|64)|bf16|f(?:16|32|64)|tensordesc<.+>|nvTmaDesc)")
_HINTS = ("divisibility", "pointer_range")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_SCALAR = {"type": ["string", "number", "boolean", "null"]}


def _argument(value: Any) -> str:
    text = str(value)
    if not _ARGUMENT.fullmatch(text):
        raise advice(f'"{text}" is not a name of an argument or option.')
    return text


def _type(value: Any) -> str:
    text = as_text(value)
    kind, _, hint = text.partition(":")
    if has_placeholder(text) or (_TYPE.fullmatch(kind.strip()) and hint.strip() in ("", "1", "16")):
        return text
    raise advice(f'"{text}" is not an argument type: write "*fp16", i32, or "*bf16:16" for one divisible by 16.')


def _constant(value: Any) -> Constant:
    """A number, truth value, null or text, whether quoted or not."""
    if value is None:
        return None
    text = as_written(value)
    if text == "?":
        raise advice("this value is not known: write one that the kernel is launched with.")
    if isinstance(value, Written) and value.kind == "bool" and text.lower() not in _WORDS:
        raise advice(f'YAML 1.1 reads {text} without quotes as a truth value; write true or false, or "{text}" in quotes.')
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _hint(value: Any) -> int:
    text = as_written(value)
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise advice(f'"{text}" is not a value of a hint: write a whole number, such as 16.')
    return int(text)


def _hint_name(value: Any) -> str:
    text = str(value)
    if text not in _HINTS:
        raise advice(f'"{text}" is not a known hint: write {" or ".join(_HINTS)}.')
    return text


_Name = Annotated[str, BeforeValidator(_argument)]
_Constant = Annotated[Constant, BeforeValidator(_constant), WithJsonSchema(_SCALAR)]


class TritonFormat(RecipeFormat):
    """A kernel, compiled ahead of time."""

    kernel: _Name | None = Field(default=None, description="The kernel function; optional when the file has only one.")
    signature: dict[_Name, Annotated[str, BeforeValidator(_type), WithJsonSchema({"type": "string"})]] = Field(
        default={},
        description="Type of each argument that is not a constexpr; a trailing `:16` means divisible by 16.",
        examples=[{"x_ptr": "*fp16:16", "n": "i32"}],
    )
    constexprs: dict[_Name, _Constant] = Field(
        default={}, description="Values of the constexprs; write a type as tl.float16.", examples=[{"BLOCK": 64}]
    )
    hints: dict[
        _Name,
        dict[Annotated[str, BeforeValidator(_hint_name)], Annotated[int, BeforeValidator(_hint), WithJsonSchema(_SCALAR)]],
    ] = Field(
        default={},
        description="Further facts about arguments.",
        examples=[{"x_ptr": {"divisibility": 16, "pointer_range": 32}}],
    )
    options: dict[_Name, _Constant] = Field(
        default={}, description="Launch options.", examples=[{"num_warps": 8, "num_stages": 3}]
    )

    @model_validator(mode="after")
    def _nothing_of_others(self) -> Self:
        if self.flags:
            raise advice("Triton has no flags: write launch options under `options`.", "flags")
        if self.target.devices is not None:
            raise advice("a kernel is compiled for one device; remove `devices`.", "target")
        both = next((name for name in self.signature if name in self.constexprs), None)
        if both is not None:
            raise advice(f'"{both}" has a type in signature and a value here; remove one of them.', "constexprs")
        stray = next((name for name in self.hints if name not in self.signature), None)
        if stray is not None:
            raise advice(f'"{stray}" is not an argument of signature.', "hints")
        return self

    def spec(self) -> KernelSpec:
        hints = {name: dict(values) for name, values in self.hints.items()}
        types: dict[str, str] = {}
        for name, text in self.signature.items():
            kind, _, divisibility = (part.strip() for part in text.partition(":"))
            types[name] = kind
            if divisibility:
                hints.setdefault(name, {}).setdefault("divisibility", int(divisibility))
        return KernelSpec(self.kernel, types, self.constexprs, hints, self.options)
