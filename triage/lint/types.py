"""Element types that a backend lacks, as far as that was seen to fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.compilers.placement import MissingTypes
from triage.lint.finding import LintFinding, LintRule, Severity
from triage.lint.program import Program, arguments
from triage.mlir import SourcePosition

_ELEMENT = re.compile(r"(?:tensor|vector)<(?:[\d?x]*x)?((?:complex<\w+>)|[a-z]\w*)|^((?:complex<\w+>)|[a-z]\w*)$")


def lacking(program: Program) -> Iterator[LintFinding]:
    """Each type once, where it first stands."""
    places = _types(program)
    signature = _signature(program)
    for one in program.placement.missing_types:
        if not _concerns(program, one):
            continue
        found = signature if one.interface else places
        for name in sorted(one.types & found.keys()):
            target = f"{program.backend} {program.chip}" if one.chips else program.backend
            yield LintFinding("missing-type", Severity.WARNING, f"{name} on {target}: {one.why}", found[name])


def demoted(program: Program) -> Iterator[LintFinding]:
    """Each type once, where it first stands."""
    found = _types(program)
    for name, option in program.placement.words.demoted.items():
        if name in found and option not in program.options:
            text = f"{name} is computed in a narrower type, which changes results, unless `{option}` is given"
            yield LintFinding("demoted-type", Severity.ADVICE, text, found[name])


def _concerns(program: Program, one: MissingTypes) -> bool:
    if program.backend not in one.backends or (one.unless and one.unless not in program.options):
        return False
    return one.chips is None or (program.chip is not None and one.chips.fullmatch(program.chip) is not None)


def _types(program: Program) -> dict[str, SourcePosition | None]:
    """Element type -> where it first stands."""
    found: dict[str, SourcePosition | None] = {}
    spelled: dict[str, str | None] = {}
    values = ((value.type, one.place) for one in program.module.walk() for value in one.results)
    for text, place in (*_given(program), *values):
        if text not in spelled:
            matched = _ELEMENT.match(text)
            spelled[text] = (matched[1] or matched[2]) if matched else None
        if (name := spelled[text]) is not None:
            found.setdefault(name, place)
    return found


def _given(program: Program) -> list[tuple[str, SourcePosition | None]]:
    return [(value.type, value.place or one.place) for one in program.functions for value in arguments(one)]


def _signature(program: Program) -> dict[str, SourcePosition | None]:
    found: dict[str, SourcePosition | None] = {}
    ends = [
        (value.type, end.place)
        for one in program.functions
        for end in one.regions[0].blocks[-1].operations[-1:]
        for value in end.operands
    ]
    for text, place in (*_given(program), *ends):
        if matched := _ELEMENT.match(text):
            found.setdefault(matched[1] or matched[2], place)
    return found


RULES = (
    LintRule("missing-type", Severity.WARNING, "An element type that the backend or the chip was seen to lack.", lacking),
    LintRule(
        "demoted-type", Severity.ADVICE, "64 bit floats, which are computed with 32 bits unless a flag forbids it.", demoted
    ),
)
