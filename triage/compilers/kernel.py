"""The keys of a recipe that say what a kernel, a Python function, is compiled for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from triage.model.case import Case, CaseSpec
from triage.model.fields import Check, Text, between, file_key, fits

Constant = bool | int | float | str | None

_YAML_WORDS = {"true": True, "false": False, "null": None, "none": None}


def _read_constant(text: str, _: object) -> Constant:
    """Return the number, truth value, None or text that a scalar of a recipe stands
    for. Quotes do not matter. Raises ValueError for a word that may mean two things.
    """
    word = text.lower()
    if word in ("yes", "no", "on", "off"):
        raise ValueError(f'"{text}" is a truth value in YAML 1.1; write true or false.')
    if word in _YAML_WORDS:
        return _YAML_WORDS[word]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


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
_Constant = Annotated[Constant, Check(_read_constant, reads=str)]
_HintValue = Annotated[int, between(0, 999_999, "write a number from 0 to 999999.")]
_Type = Annotated[Text, fits(_TYPE, _ADVICE)]


@dataclass(frozen=True)
class KernelSpec(CaseSpec):
    """The types and constants that a kernel is compiled for."""

    kernel: _Name | None = file_key(
        None, "The kernel function; optional when the file has only one."
    )
    signature: dict[_Name, _Type] = file_key(
        dict,
        "Type of each argument that is not a constexpr; a trailing `:16` means "
        "divisible by 16.",
        {"x_ptr": "*fp16:16", "n": "i32"},
    )
    constexprs: dict[_Name, _Constant] = file_key(
        dict,
        "Values of the constexprs; write a type as tl.float16.",
        {"BLOCK": 64},
    )
    hints: dict[_Name, dict[_Hint, _HintValue]] = file_key(
        dict,
        "Further facts about arguments.",
        {"x_ptr": {"divisibility": 16, "pointer_range": 32}},
    )
    options: dict[_Name, _Constant] = file_key(
        dict, "Launch options.", {"num_warps": 8, "num_stages": 3}
    )


def kernel_of(case: Case) -> KernelSpec | None:
    """Return what the kernel of a case is compiled for, if its input is a kernel."""
    if isinstance(case.spec, KernelSpec):
        return case.spec
    return None
