"""The program after each phase, on both sides: how much of what there is, and where the meaning first differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from triage.attribute.reading import IrReader, Lines, Module
from triage.attribute.result import Difference, PhaseComparison
from triage.attribute.structure import Structure
from triage.attribute.trace import together
from triage.compilers.vocabulary import Vocabulary

_SHOWN = 12
_PIECE = 1 << 20

Print = Callable[[str], tuple[Module | None, Module | None]]
"""Prints the program of both sides up to a phase; None where a side does not get there."""


def compare_phases(phases: Sequence[str], both: Print, words: Vocabulary) -> Iterator[PhaseComparison]:
    """Each phase in order, until no side gets there."""
    for phase in phases:
        modules = both(phase)
        good, bad = (_meaning(module) if module else None for module in modules)
        if good is None and bad is None:
            return
        yield PhaseComparison(
            phase,
            _counts(good, words) if good else None,
            _counts(bad, words) if bad else None,
            good.same_as(bad) if good and bad else None,
            _differences(good, bad) if good and bad else (),
        )
        if good is None or bad is None:
            return


def read_module(path: Path, words: Vocabulary) -> Module | None:
    """The program a file holds, read in pieces; None where it holds none, as a binary does."""
    found: list[Module] = []
    reader = IrReader(words, found.append, spell=True)
    lines = Lines(reader.line)
    with path.open("rb") as source:
        while piece := source.read(_PIECE):
            lines.feed(piece)
    lines.finish()
    return found[0] if found else None


def _meaning(module: Module) -> Structure:
    """Its functions together. What stands around them, such as the description of a target, is spelled anew by versions."""
    whole = together(module.functions.values())
    return Structure(whole.print_, module.whole.operations, whole.choices, whole.shared, module.whole.spelled)


def _counts(structure: Structure, words: Vocabulary) -> Mapping[str, int]:
    return {name: sum(structure.operations.get(one, 0) for one in kinds) for name, kinds in words.counts.items()}


def _differences(good: Structure, bad: Structure) -> tuple[Difference, ...]:
    if good.same_as(bad):
        return ()
    here, there = Counter(good.spelled), Counter(bad.spelled)
    names = sorted(here.keys() | there.keys(), key=lambda name: (-abs(here[name] - there[name]), name))
    counted = [Difference(name, str(here[name]), str(there[name])) for name in names if here[name] != there[name]]
    chosen = [Difference(*choice) for choice in good.choices_against(bad)]
    return tuple([*chosen, *counted][:_SHOWN])
