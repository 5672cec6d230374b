"""What one failure class knows: its texts, what identifies it, how to explain it. Values; `load` reads the files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from triage.classify.candidates import Candidate
from triage.model.execution import Ending
from triage.model.outcome import Cause, Detail

CONSEQUENCE = 80
"""Ranks from here on are what a failure causes: told only when nothing better stands in the output."""


NEEDLES = ("rror",)
"""Nearly every message holds it, printed IR hardly ever does: such lines are always read."""


class Where(StrEnum):
    """Which part of the output a pattern is searched in."""

    ERROR = "error"  # the message of an `error:` diagnostic, place and severity removed
    REMARK = "remark"  # the message of a `remark:`; such a finding never fails a compile that exited with 0
    LINE = "line"  # a whole line, cleaned of a CI system's prefixes
    EXCEPTION = "exception"  # `Type: message`, the last line of a Python traceback
    CRASH = "crash"  # a line that begins or explains a native crash; the stack that follows belongs to it


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording, and how its lines are found in a stream.

    begins: literals, one of which begins the message, after a program's name, a place and a CI system's prefixes.
    anchors: literals, one of which every matching line holds anywhere; each costs a pass over the stream.
    Neither is needed where every matching line holds `error`, nor for a failed assertion.
    """

    regex: str
    where: Where = Where.ERROR
    begins: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in `text`."""
        return compiled(self.regex).search(text)


@dataclass(frozen=True, slots=True)
class Example:
    """Output as a compiler prints it, and what must be read out of it."""

    text: str
    details: Mapping[str, Detail]
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What usually helps, in words. compiler: the family it is for; None where it is for all."""

    text: str
    compiler: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One failure class.

    rank: order of root causes, smallest first; `CONSEQUENCE` and above are consequences.
    identity: captures that enter the signature; `message` stands for the normalised headline, `frames` for the stack.
    context: regexes over the lines after the match, for captures that the matching line lacks.
    passes, frames: names of failing passes, regexes over symbols, that claim a failure which no text explains.
    endings, signals: what claims an execution that wrote nothing.
    explains: signatures (or their beginnings) that this failure brings with it; they are not reported beside it.
    candidates: what `triage remedy` tries first against it, the likeliest first.
    says_nothing: why a probe that failed so says nothing about the bug; None when it is a failure like any other.
    """

    name: str
    family: str
    rank: int
    patterns: tuple[Pattern, ...]
    identity: tuple[str, ...]
    explanation: str
    remedies: tuple[Advice, ...]
    candidates: tuple[Candidate, ...] = ()
    phase: str | None = None
    says_nothing: Cause | None = None
    context: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    endings: tuple[Ending, ...] = ()
    signals: tuple[int, ...] = ()
    explains: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    near_misses: tuple[str, ...] = ()
    origin: str = ""

    @property
    def consequence(self) -> bool:
        """Whether this is told only when nothing better is."""
        return self.rank >= CONSEQUENCE

    def remedies_for(self, compiler: str | None) -> tuple[str, ...]:
        """What usually helps with one compiler family; with None, which is an output of nobody knows what, all there is."""
        return tuple(one.text for one in self.remedies if compiler is None or one.compiler in (None, compiler))

    def candidates_for(self, compiler: str) -> tuple[Candidate, ...]:
        """What may be tried with one compiler family, in order."""
        return tuple(one for one in self.candidates if one.compiler in (None, compiler))

    def context_of(self, text: str) -> dict[str, str]:
        """Captures found in one line that follows the match."""
        found: dict[str, str] = {}
        for regex in self.context:
            if match := compiled(regex).search(text):
                found.update({name: value for name, value in match.groupdict().items() if value})
        return found


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """Compiled on first use: a run that never fails pays for none of them."""
    return re.compile(regex)


INTEGER = re.compile(r"-?\d+\Z")


def detail(value: str) -> Detail:
    """A capture as it is reported: integers as integers."""
    return int(value) if INTEGER.match(value) and len(value) < 30 else value
