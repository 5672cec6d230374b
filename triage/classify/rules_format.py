"""The keys of a user's rule file as pydantic models. The packaged files are checked by the tests."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from triage.classify.rules import ERROR_NEEDLES, MatchScope
from triage.config.schema import MappingFormat, Text, Texts, Truth
from triage.config.values import advice, as_list, as_text, as_written
from triage.model.execution import Ending
from triage.model.outcome import Cause

_CLASS_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FLAG = r"--[a-z][a-z0-9-]*"
_KINDS: Mapping[str, tuple[str, ...]] = {  # of candidates, with the further keys of each
    "give": ("checks_less", "recomputes"),
    "drop": (),
    "least": ("above", "upto", "doubling"),
    "declare": (),
    "option": ("values",),
    "rewrite": (),
}


def _class_name(value: Any) -> str:
    text = as_text(value)
    if not _CLASS_NAME.fullmatch(text):
        raise advice(f'"{text}" cannot name a class: use [a-z0-9-], such as "stack-overflow".')
    return text


def _regex(value: Any) -> str:
    text = as_text(value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # such as `[[`, which a later Python may read otherwise
            re.compile(text)
    except (re.error, FutureWarning) as error:
        raise advice(f"not a regular expression: {error}.") from None
    return text


def _integer(value: Any) -> int:
    text = as_written(value)
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise advice(f'"{text}" is not an integer.')
    return int(text)


def _rank(value: Any) -> int:
    rank = _integer(value)
    if not 0 <= rank < 100:
        raise advice("a rank is an integer from 0 to 99; the smallest is reported first.")
    return rank


def _flag(value: Any) -> str:
    text = as_text(value)
    if not re.fullmatch(rf"{_FLAG}(=\S+)?", text):
        raise advice(f'"{text}" is not a flag as it is given, --name=value.')
    return text


def _flag_name(value: Any) -> str:
    text = as_text(value)
    if not re.fullmatch(_FLAG, text):
        raise advice(f'"{text}" is not the name of a flag, --name without a value.')
    return text


def _some(value: Any) -> Any:
    if value == []:
        raise advice("this list is empty: write at least one entry.")
    return as_list(value)


def _by_compiler(value: Any) -> Any:
    """A list for all compilers, as one list of a mapping by compiler."""
    return {name: as_list(items) for name, items in value.items()} if isinstance(value, dict) else {"": as_list(value)}


def _pattern(value: Any) -> Any:
    return value if isinstance(value, dict) else {"regex": value}


_Regex = Annotated[str, BeforeValidator(_regex)]
_Integer = Annotated[int, BeforeValidator(_integer)]
_FlagName = Annotated[str, BeforeValidator(_flag_name)]


class PatternFormat(MappingFormat):
    """One wording of a failure."""

    noun: ClassVar[str] = "a pattern"

    regex: _Regex = Field(examples=["out of (?P<resource>\\w+)"])
    where: MatchScope = MatchScope.ERROR
    begins: Texts = ()
    anchor: Texts = ()

    @model_validator(mode="after")
    def _is_found_fast(self) -> Self:
        literals = (*ERROR_NEEDLES, "Assertion")
        if self.where in (MatchScope.LINE, MatchScope.CRASH) and not (
            self.begins or self.anchor or any(text in self.regex for text in literals)
        ):
            raise advice(f"a `{self.where}` pattern needs `begins` (how its message starts) or an `anchor` (a literal).")
        return self


class ContextFormat(MappingFormat):
    """What is read in the lines below a match."""

    noun: ClassVar[str] = "a context"

    regex: _Regex = Field(examples=["in (?P<place>\\w+)"])
    op: Text | None = None
    unless: Text | None = None


class AboveFormat(MappingFormat):
    """What is read in the lines above a match."""

    noun: ClassVar[str] = "what stands above"

    below: _Regex = Field(examples=["^failed"])
    regex: _Regex = Field(examples=["^(?P<reason>.+)"])


class AsReadFormat(MappingFormat):
    """The class of a failure that concerns the input as it stands."""

    noun: ClassVar[str] = "`as_read`"

    name: Text = Field(alias="class", examples=["parse-error"])
    certain: _Regex = Field(examples=["expected \\d+ operands"])


class AsMadeFormat(MappingFormat):
    """The class of a failure that concerns what a pass made."""

    noun: ClassVar[str] = "`as_made`"

    name: Text = Field(alias="class", examples=["verifier"])
    doubtful: _Regex = Field(examples=["expected operand"])


class ExampleFormat(MappingFormat):
    """Output that a compiler printed, and what must be read from it."""

    noun: ClassVar[str] = "an example"

    text: Annotated[str, BeforeValidator(as_written)] = Field(examples=["error: out of paint"])
    details: dict[str, Any] = Field(default_factory=dict, examples=[{"resource": "paint"}])
    signature: Text | None = None


class CandidateFormat(MappingFormat):
    """What `triage remedy` tries: exactly one of the first six keys."""

    noun: ClassVar[str] = "a candidate"

    give: Annotated[str, BeforeValidator(_flag)] | None = None
    drop: _FlagName | None = None
    least: _FlagName | None = None
    declare: Literal["devices"] | None = None
    option: Text | None = None
    rewrite: Literal["barriers", "affinities", "static", "dtype"] | None = None
    why: Text | None = None
    checks_less: Truth | None = None
    recomputes: Truth | None = None
    doubling: Truth | None = None
    above: _Integer | None = None
    upto: _Integer | None = None
    values: tuple[Annotated[str, BeforeValidator(as_written)], ...] | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        present = self.model_dump(exclude_none=True)
        kinds = [kind for kind in _KINDS if kind in present]
        if len(kinds) != 1:
            raise advice(f"a candidate has exactly one of {', '.join(_KINDS)}.")
        [kind] = kinds
        for key in present:
            if key not in (kind, "why", *_KINDS[kind]):
                raise advice(f"'{key}' is not a key of a candidate with '{kind}'.", key)
        if kind == "least" and (self.above is None or self.upto is None or not 0 <= self.above < self.upto):
            raise advice("`above` and `upto` are integers, `above` the smaller one.")
        if kind == "option" and not self.values:
            raise advice("an option needs a list of values.")
        return self


class ClassFormat(MappingFormat):
    """One failure class."""

    noun: ClassVar[str] = "a class"

    name: Annotated[str, BeforeValidator(_class_name)] = Field(alias="class", examples=["stack-overflow"])
    rank: Annotated[int, BeforeValidator(_rank)] = Field(examples=[30])
    explanation: Text = Field(examples=["It ran out of stack."])
    remedies: Annotated[dict[str, tuple[Text, ...]], BeforeValidator(_by_compiler)] = Field(examples=["Use smaller tiles."])
    examples: Annotated[tuple[ExampleFormat, ...], BeforeValidator(_some)] = Field(examples=[[{"text": "error: out of stack"}]])
    near_misses: Annotated[tuple[Text, ...], BeforeValidator(_some)] = Field(examples=[["stack of plates"]])
    family: Text | None = None
    patterns: Annotated[tuple[Annotated[PatternFormat, BeforeValidator(_pattern)], ...], BeforeValidator(as_list)] = ()
    identity: Texts = ()
    phase: Text | None = None
    says_nothing: Cause | None = None
    context: Annotated[tuple[Annotated[ContextFormat, BeforeValidator(_pattern)], ...], BeforeValidator(as_list)] = ()
    above: Annotated[tuple[AboveFormat, ...], BeforeValidator(as_list)] = ()
    source_op: Truth = False
    as_read: AsReadFormat | None = None
    as_made: AsMadeFormat | None = None
    passes: Texts = ()
    frames: Annotated[tuple[_Regex, ...], BeforeValidator(as_list)] = ()
    endings: Annotated[tuple[Ending, ...], BeforeValidator(as_list)] = ()
    signals: Annotated[tuple[_Integer, ...], BeforeValidator(as_list)] = ()
    explains: Texts = ()
    candidates: Annotated[dict[str, tuple[CandidateFormat, ...]], BeforeValidator(_by_compiler)] = Field(default_factory=dict)


class RulesFormat(MappingFormat):
    """A rule file."""

    noun: ClassVar[str] = "a rule file"

    classes: list[ClassFormat] = Field(examples=[[{"class": "stack-overflow"}]])
    family: Text | None = None
