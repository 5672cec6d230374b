"""Failure classes as values: rules with their patterns, texts and candidate remedies. `rules_file` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property

from triage.classify.literals import Step, may_match, required_literals
from triage.model.execution import Ending
from triage.model.outcome import Advice, Cause, Detail, Failure

CONSEQUENCE = 80
"""Rules of this rank and above describe consequences, which are reported only when no root cause is found."""

ERROR_NEEDLES = ("rror", "Assertion `")
"""Parts of nearly every error message and rarely of printed IR; the prefilter passes every line that contains one."""


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

    begins: literals; the message starts with one of them, after a program name, a location and CI prefixes.
    anchors: literals; every matching line contains one of them anywhere. Each costs a pass over the stream.
    Neither is needed when every matching line contains `error`, nor for a failed assertion.
    """

    regex: str
    scope: MatchScope = MatchScope.ERROR
    begins: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()

    @property
    def literals(self) -> tuple[Step, ...]:
        """Literals that every match contains, in order."""
        return required_literals(self.regex)

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in `text`."""
        return compiled(self.regex).search(text) if may_match(self.literals, text) else None


@dataclass(frozen=True, slots=True)
class GiveFlag:
    """Pass a flag, `--name=value`, replacing any other value of it.

    checks_less: the flag only silences a check; recomputes: it changes types of computations and so the results;
    compiler: the family that the candidate is for, None for all (the same in every kind of candidate).
    """

    text: str
    why: str = ""
    checks_less: bool = False
    recomputes: bool = False
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropFlag:
    """Leave out a flag of the recipe. name: with its dashes, without a value."""

    name: str
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LeastValue:
    """Pass a flag with the smallest value in (above, upto] that works; doubling: try powers of two only."""

    name: str
    above: int
    upto: int
    doubling: bool = False
    why: str = ""
    compiler: str | None = field(default=None, compare=False)

    @property
    def values(self) -> tuple[int, ...] | range:
        """All values that may be tried, ascending."""
        if not self.doubling:
            return range(self.above + 1, self.upto + 1)
        powers = (1 << exponent for exponent in range(self.upto.bit_length()))
        return tuple(value for value in powers if self.above < value <= self.upto)


@dataclass(frozen=True, slots=True)
class DeclareDevices:
    """Declare every device that the program names."""

    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """Launch a kernel with another value of an option."""

    name: str
    values: tuple[str | int, ...]
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RewriteInput:
    """Rewrite the program: `barriers` before transfers, `affinities` on all arguments and results, `static` dimensions
    of its arguments, or 32 bit floats as its `dtype`.
    """

    name: str
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


RemedyCandidate = GiveFlag | DropFlag | LeastValue | DeclareDevices | LaunchOption | RewriteInput
"""What `triage remedy` may try against a failure class."""


@dataclass(frozen=True, slots=True)
class RuleExample:
    """Output as a compiler prints it, with the details and the signature that must be read from it."""

    text: str
    details: Mapping[str, Detail]
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """A regex for the lines after the match.

    op: the only operation that it is read for; None for all. unless: a capture of the match that makes it needless.
    """

    regex: str
    op: str | None = None
    unless: str | None = None


@dataclass(frozen=True, slots=True)
class Above:
    """What to capture in the lines above a match. below: regex for the text of the match; regex: for the line above."""

    below: str
    regex: str

    def search(self, text: str) -> bool:
        """Whether the lines above a message belong to it."""
        return bool(compiled(self.below).search(text))

    def match_above(self, text: str) -> dict[str, str] | None:
        """Return the captures in a line above the match; None when it is another line."""
        match = compiled(self.regex).match(text)
        return captures_of(match) if match else None


@dataclass(frozen=True, slots=True)
class AsRead:
    """The class of a failure that concerns the input. certain: matches messages that no pass can cause."""

    name: str
    certain: str


@dataclass(frozen=True, slots=True)
class AsMade:
    """The class of a failure that looks like an input's, where a pass made the operation.

    doubtful: regex for the messages that a verifier prints, too; only the reader of the input prints others.
    """

    name: str
    doubtful: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One failure class.

    rank: order of root causes, smallest first; `CONSEQUENCE` and above are consequences.
    identity: captures that enter the signature; `message` stands for the normalised headline, `frames` for the stack,
        `caller` for what called a function of a header in which an assertion failed, `dispatch` for the kind of dispatch.
        A capture `reason`, from the lines around the match, also extends the headline.
    context: what to read in the lines after the match, for captures that the matching line lacks.
    above: what to read in the lines above the match.
    source_op: read `source_op`, the operation in the source line that follows the match.
    as_read: what this failure is when no pass has changed the operation: the input is invalid as it stands.
    as_made: what this failure is when passes have run, so that the message is not about the input.
    passes, frames: pass names, and regexes over stack symbols, that assign this class to a failure no text explains.
    endings, signals: how a process ended that this class describes, with or without output.
    explains: signatures (or prefixes of them) that this failure causes; they are not reported beside it.
    candidates: what `triage remedy` tries first, most promising first.
    says_nothing: why a probe with this failure is untestable; None for an ordinary failure.
    """

    name: str
    family: str
    rank: int
    patterns: tuple[Pattern, ...]
    identity: tuple[str, ...]
    explanation: str
    remedies: tuple[Advice, ...]
    candidates: tuple[RemedyCandidate, ...] = ()
    phase: str | None = None
    says_nothing: Cause | None = None
    context: tuple[Context, ...] = ()
    above: tuple[Above, ...] = ()
    source_op: bool = False
    as_read: AsRead | None = None
    as_made: AsMade | None = None
    passes: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    endings: tuple[Ending, ...] = ()
    signals: tuple[int, ...] = ()
    explains: tuple[str, ...] = ()
    examples: tuple[RuleExample, ...] = ()
    near_misses: tuple[str, ...] = ()
    origin: str = ""

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
