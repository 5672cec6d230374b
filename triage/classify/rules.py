"""Failure classes as values: what a rule file says about each class. `rules_file` reads the files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationInfo

from triage.classify.literals import Step, may_match, required_literals
from triage.model.execution import Ending
from triage.model.outcome import Advice, Cause, Detail, Failure

CONSEQUENCE = 80
"""Rules of this rank and above describe consequences, which are reported only when no root cause is found."""

ERROR_NEEDLES = ("rror", "Assertion `")
"""Parts of nearly every error message and rarely of printed IR; the prefilter passes every line that contains one."""

STRICT = ConfigDict(extra="forbid")


def _regex(text: str, info: ValidationInfo) -> str:
    """Check a regex of a user's file. Those of the packaged files are checked by the tests, not at each start."""
    if info.context:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # such as `[[`, which a later Python may read otherwise
            try:
                re.compile(text)
            except (re.error, FutureWarning) as error:
                raise ValueError(f"not a regular expression: {error}") from None
    return text


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _by_compiler(value: Any) -> Any:
    """A list for all compilers, as a mapping with one list for the compiler `""`."""
    return {name: _as_list(items) for name, items in value.items()} if isinstance(value, dict) else {"": _as_list(value)}


def _with_regex(value: Any) -> Any:
    return {"regex": value} if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
Regex = Annotated[str, AfterValidator(_regex)]
_Value = Annotated[Detail, BeforeValidator(lambda value: detail(value) if isinstance(value, str) else value)]
OneOrMore = BeforeValidator(_as_list)
Texts = Annotated[tuple[str, ...], OneOrMore]
FlagName = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*$")]


class MatchScope(StrEnum):
    """The part of the output that a pattern is searched in."""

    ERROR = "error"  # the message of an `error:` diagnostic, without location and severity
    REMARK = "remark"  # the message of a `remark:`; never makes a compile with exit code 0 a failure
    LINE = "line"  # a whole line, without the prefixes of CI systems
    EXCEPTION = "exception"  # `Type: message`, the last line of a Python traceback
    CRASH = "crash"  # the line that starts or explains a native crash; the stack that follows belongs to it


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording of a failure, and how the prefilter finds its lines.

    Neither `begins` nor `anchors` is needed when every matching line contains `error`, nor for a failed assertion.
    """

    __pydantic_config__ = STRICT
    regex: Regex
    scope: Annotated[MatchScope, Field(alias="where")] = MatchScope.ERROR
    begins: Texts = ()
    """The message starts with one of these, after a program name, a location and CI prefixes."""
    anchors: Annotated[Texts, Field(alias="anchor")] = ()
    """Every matching line contains one of these anywhere. Each costs a pass over the stream."""

    @property
    def literals(self) -> tuple[Step, ...]:
        """Literals that every match contains, in order."""
        return required_literals(self.regex)

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in `text`."""
        return compiled(self.regex).search(text) if may_match(self.literals, text) else None


def _found_fast(pattern: Pattern, info: ValidationInfo) -> Pattern:
    known = any(text in pattern.regex for text in (*ERROR_NEEDLES, "Assertion"))
    if info.context and pattern.scope in ("line", "crash") and not (pattern.begins or pattern.anchors or known):
        raise ValueError(f"a `{pattern.scope}` pattern needs `begins` (how its message starts) or an `anchor` (a literal)")
    return pattern


@dataclass(frozen=True, slots=True)
class GiveFlag:
    """Pass a flag, `--name=value`, replacing any other value of it."""

    __pydantic_config__ = STRICT
    text: Annotated[str, Field(alias="give", pattern=r"^--[a-z][a-z0-9-]*(=\S+)?$")]
    why: Text = ""
    checks_less: bool = False
    """The flag only silences a check."""
    recomputes: bool = False
    """The flag changes types of computations and so the results."""
    compiler: str | None = field(default=None, compare=False)
    """The family that the candidate is for; None for all. The same in every kind of candidate."""


@dataclass(frozen=True, slots=True)
class DropFlag:
    """Leave out a flag of the recipe. name: with its dashes, without a value."""

    __pydantic_config__ = STRICT
    name: Annotated[FlagName, Field(alias="drop")]
    why: Text = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LeastValue:
    """Pass a flag with the smallest value in (above, upto] that works; doubling: try powers of two only."""

    __pydantic_config__ = STRICT
    name: Annotated[FlagName, Field(alias="least"), AfterValidator(lambda name: name.removeprefix("--"))]
    above: Annotated[int, Field(ge=0)]
    upto: int
    doubling: bool = False
    why: Text = ""
    compiler: str | None = field(default=None, compare=False)

    @property
    def values(self) -> tuple[int, ...] | range:
        """All values that may be tried, ascending."""
        if not self.doubling:
            return range(self.above + 1, self.upto + 1)
        powers = (1 << exponent for exponent in range(self.upto.bit_length()))
        return tuple(value for value in powers if self.above < value <= self.upto)


def _in_bounds(least: LeastValue) -> LeastValue:
    if least.above >= least.upto:
        raise ValueError("`above` must be smaller than `upto`")
    return least


@dataclass(frozen=True, slots=True)
class DeclareDevices:
    """Declare every device that the program names."""

    __pydantic_config__ = STRICT
    why: Text = ""
    declare: Literal["devices"] = "devices"
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """Launch a kernel with another value of an option."""

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(alias="option")]
    values: Annotated[tuple[_Value, ...], Field(min_length=1)]
    why: Text = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RewriteInput:
    """Rewrite the program: `barriers` before transfers, `affinities` on all arguments and results, `static` dimensions
    of its arguments, or 32 bit floats as its `dtype`.
    """

    __pydantic_config__ = STRICT
    name: Annotated[Literal["barriers", "affinities", "static", "dtype"], Field(alias="rewrite")]
    why: Text = ""
    compiler: str | None = field(default=None, compare=False)


RemedyCandidate = GiveFlag | DropFlag | LeastValue | DeclareDevices | LaunchOption | RewriteInput
"""What `triage remedy` may try against a failure class."""

CANDIDATE_KEYS = ("give", "drop", "least", "declare", "option", "rewrite")


def _kind(value: Any) -> str | None:
    return next((key for key in CANDIDATE_KEYS if key in value), None) if isinstance(value, dict) else None


_Candidate = Annotated[
    Annotated[GiveFlag, Tag("give")]
    | Annotated[DropFlag, Tag("drop")]
    | Annotated[LeastValue, AfterValidator(_in_bounds), Tag("least")]
    | Annotated[DeclareDevices, Tag("declare")]
    | Annotated[LaunchOption, Tag("option")]
    | Annotated[RewriteInput, Tag("rewrite")],
    Discriminator(_kind, custom_error_type="kind", custom_error_message=f"a candidate has one of {', '.join(CANDIDATE_KEYS)}"),
]


@dataclass(frozen=True, slots=True)
class RuleExample:
    """Output as a compiler prints it, with the details and the signature that must be read from it."""

    __pydantic_config__ = STRICT
    text: str
    details: Mapping[str, _Value] = field(default_factory=dict)
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """A regex for the lines after the match."""

    __pydantic_config__ = STRICT
    regex: Regex
    op: str | None = None
    """The only operation that it is read for; None for all."""
    unless: str | None = None
    """A capture of the match that makes it needless."""


@dataclass(frozen=True, slots=True)
class Above:
    """What to capture in the lines above a match. below: regex for the text of the match; regex: for the line above."""

    __pydantic_config__ = STRICT
    below: Regex
    regex: Regex

    def match_above(self, text: str) -> dict[str, str] | None:
        """Return the captures in a line above the match; None when it is another line."""
        match = compiled(self.regex).match(text)
        return captures_of(match) if match else None


@dataclass(frozen=True, slots=True)
class AsRead:
    """The class of a failure that concerns the input. certain: matches messages that no pass can cause."""

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(alias="class")]
    certain: Regex


@dataclass(frozen=True, slots=True)
class AsMade:
    """The class of a failure that looks like an input's, where a pass made the operation.

    doubtful: regex for the messages that a verifier prints, too; only the reader of the input prints others.
    """

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(alias="class")]
    doubtful: Regex


@dataclass(frozen=True, slots=True)
class Rule:
    """One failure class."""

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(alias="class", pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    rank: Annotated[int, Field(ge=0, lt=100)]
    """Order of root causes, smallest first; `CONSEQUENCE` and above are consequences."""
    explanation: Text
    advice: Annotated[Mapping[str, tuple[Text, ...]], Field(alias="remedies"), BeforeValidator(_by_compiler)]
    examples: Annotated[tuple[RuleExample, ...], Field(min_length=1), OneOrMore]
    near_misses: Annotated[tuple[str, ...], Field(min_length=1), OneOrMore]
    family: str = ""
    patterns: Annotated[
        tuple[Annotated[Pattern, BeforeValidator(_with_regex), AfterValidator(_found_fast)], ...], OneOrMore
    ] = ()
    identity: Texts = ()
    """Captures that enter the signature; `message` stands for the normalised headline, `frames` for the stack, `caller` for
    what called a function of a header in which an assertion failed, `dispatch` for the kind of dispatch. A capture `reason`,
    from the lines around the match, also extends the headline.
    """
    tried: Annotated[Mapping[str, tuple[_Candidate, ...]], Field(alias="candidates"), BeforeValidator(_by_compiler)] = field(
        default_factory=dict
    )
    phase: str | None = None
    says_nothing: Cause | None = None
    """Why a probe with this failure is untestable; None for an ordinary failure."""
    context: Annotated[tuple[Annotated[Context, BeforeValidator(_with_regex)], ...], OneOrMore] = ()
    above: Annotated[tuple[Above, ...], OneOrMore] = ()
    source_op: bool = False
    """Read `source_op`, the operation in the source line that follows the match."""
    as_read: AsRead | None = None
    """What this failure is when no pass has changed the operation: the input is invalid as it stands."""
    as_made: AsMade | None = None
    """What this failure is when passes have run, so that the message is not about the input."""
    passes: Texts = ()
    """Names of passes that assign this class to a failure no text explains."""
    frames: Annotated[tuple[Regex, ...], OneOrMore] = ()
    """Regexes over stack symbols that do the same."""
    endings: Annotated[tuple[Ending, ...], OneOrMore] = ()
    """How a process ended that this class describes, with or without output."""
    signals: Annotated[tuple[int, ...], OneOrMore] = ()
    explains: Texts = ()
    """Signatures (or their beginnings) that this failure causes; they are not reported next to it."""

    @property
    def remedies(self) -> tuple[Advice, ...]:
        """What to do, with the compiler family that each advice is for."""
        return tuple(Advice(text, name or None) for name, texts in self.advice.items() for text in texts)

    @property
    def candidates(self) -> tuple[RemedyCandidate, ...]:
        """What `triage remedy` tries first, most promising first."""
        return tuple(replace(item, compiler=name or None) for name, items in self.tried.items() for item in items)

    @property
    def consequence(self) -> bool:
        """Whether this class is reported only when no root cause is found."""
        return self.rank >= CONSEQUENCE

    def candidates_for(self, compiler: str) -> tuple[RemedyCandidate, ...]:
        """Return the candidates for one compiler family, in order."""
        return tuple(candidate for candidate in self.candidates if candidate.compiler in (None, compiler))

    @property
    def about_ir(self) -> bool:
        """Whether the failure concerns an operation, so that the compiler of a host language does not report it."""
        return self.family in ("codegen", "input")

    @property
    def loose(self) -> bool:
        """Whether the patterns are worded so loosely that they are only meant for diagnostics about operations."""
        return self.as_read is not None or self.family == "input"

    @property
    def reads_on(self) -> bool:
        """Whether the lines after a match belong to it."""
        return bool(self.context) or self.source_op

    def context_of(self, text: str, known: Mapping[str, str]) -> dict[str, str]:
        """Return the captures in one line that follows the match. known: the captures of the match."""
        captures: dict[str, str] = {}
        for context in self.context:
            if known.get(context.unless or ""):
                continue
            if context.op in (None, known.get("op")) and (match := Pattern(context.regex).search(text)):
                captures.update(captures_of(match))
        return captures


@dataclass(frozen=True, eq=False)
class RuleSet:
    """The rules that output is classified by: smallest rank first, one rule a class.

    Every set contains the packaged rules or replacements of them, so `unknown`, `silent-failure` and `segfault` exist.
    """

    rules: tuple[Rule, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def by_name(self) -> Mapping[str, Rule]:
        """The rules by class name."""
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Literals that make a line worth reading wherever they occur in it."""
        anchors = {anchor for rule in self.rules for pattern in rule.patterns for anchor in pattern.anchors}
        return (*ERROR_NEEDLES, *sorted(anchors))

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """Literals that make a line worth reading when its message starts with them."""
        return tuple(sorted({text for rule in self.rules for pattern in rule.patterns for text in pattern.begins}))

    @cached_property
    def patterns(self) -> Mapping[MatchScope, tuple[tuple[int, Rule, Pattern], ...]]:
        """The patterns of each scope with their position in the order of all patterns."""
        pairs = [(rule, pattern) for rule in self.rules for pattern in rule.patterns]
        numbered = [(index, rule, pattern) for index, (rule, pattern) in enumerate(pairs)]
        return {scope: tuple(entry for entry in numbered if entry[2].scope is scope) for scope in MatchScope}

    def unexplained(self, failure: Failure) -> bool:
        """Whether the output does not say what went wrong: only a consequence, or a message that no rule knows."""
        rule = self.by_name.get(failure.failure_class)
        return rule is None or rule.consequence or rule.name == "unknown"

    def needs_pass(self, failure: Failure) -> bool:
        """Whether only the failing pass identifies the failure, because the output does not say what went wrong."""
        return self.unexplained(failure) or failure.failure_class == "silent-failure"


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """Compile a regex on first use: a run that never fails pays for none."""
    return re.compile(regex)


def captures_of(match: re.Match[str]) -> dict[str, str]:
    """Return the named groups of a match that are not empty."""
    return {name: value for name, value in match.groupdict().items() if value}


_INTEGER = re.compile(r"-?\d+\Z")


def detail(value: str) -> Detail:
    """Convert a capture for a report: integers as int."""
    return int(value) if _INTEGER.match(value) and len(value) < 30 else value
