"""The search for a smaller program.

The key insight: a pass only proposes candidates, and one test decides for all of them.
So a pass may be wrong. What it proposes need not compile, verify or mean the same: the
test compiles it, and keeps it only if it fails as the original does.

A pass is a function that makes a candidate smaller by asking the test. `reduce` runs
passes until none of them helps. Passes are built on two searches: `minimise` (drop as
many items as possible) and `greedily` (apply one change after another). The passes here
change the settings of a case, which programs of all forms have.

For a new pass: propose large steps first, since a compile costs the same however much
it removes; leave order and names alone, so that a later pass meets what it knows; and
return the candidate itself if nothing helped, so that it is not tested again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TypeVar

from triage.compilers.base import kernel_of
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase, Reducible

T = TypeVar("T")
MOST_KINDS = 16  # of items to drop kind by kind; among more, halves are faster
_MOST_REFUSED = 3  # chunks of equal kinds that are tried in vain
# a bound against passes that undo each other; more rounds have not been seen to help
_ROUNDS = 8

Pass = Callable[[ReducedCase, InterestingnessTest], ReducedCase]
"""Makes a candidate smaller; returns the candidate itself when it finds nothing."""


@dataclass(frozen=True, slots=True)
class Frontend:
    """How programs of one form are read, and the passes that make them smaller."""

    open: Callable[[Path], Iterable[Reducible]]
    """Yields the programs to start from, the cheapest first, each read on demand.
    Raises UnreadableError.
    """
    passes: Sequence[Pass]
    """Run in this order until none of them makes the program smaller."""
    final_passes: Sequence[Pass]
    """Run once at the end, because they remove nothing themselves."""
    approach: Callable[[int | None], Pass] | None = None
    """Makes the pass that runs before all others, from the line of the file that the
    compiler's diagnostic points to.
    """
    notes: Sequence[str] = ()
    """How the programs were read and checked. `open` may add to it."""
    form: str = "it"
    """What is compiled: the program as it is, or a form of it."""


def reduce(
    candidate: ReducedCase,
    test: InterestingnessTest,
    passes: Sequence[Pass],
    final_passes: Sequence[Pass] = (),
) -> ReducedCase:
    """Run the passes in rounds until a round makes nothing smaller, then the final ones
    once.
    """
    for number in range(_ROUNDS):
        before = candidate
        for step in passes:
            candidate = run_pass(candidate, test, step, f", round {number + 1}")
        if _sizes(candidate) == _sizes(before):
            break
    for step in final_passes:
        candidate = run_pass(candidate, test, step)
    return candidate


def run_pass(
    candidate: ReducedCase,
    test: InterestingnessTest,
    step: Pass,
    when: str = "",
) -> ReducedCase:
    """Run one pass, and make its result the best candidate. If the good toolchain does
    not compile that, run the pass again and test each candidate there, too.
    """
    test.report(step.__name__.replace("_", " ") + when)
    reduced = step(candidate, test)
    if reduced is candidate:
        return candidate
    if test.oracle.is_confirmed(reduced, threading.Event()):
        test.accept_as_best(reduced, confirmed=True)
        return reduced
    test.accept_as_best(candidate, confirmed=True)
    test.strict = True
    try:
        return step(candidate, test)
    finally:
        test.strict = False


def _sizes(candidate: ReducedCase) -> tuple[object, ...]:
    case = candidate.case
    return (
        candidate.program.size,
        len(candidate.program.content),
        len(case.flags),
        case.spec,
    )


def minimise(
    candidate: ReducedCase,
    items: Sequence[T],
    build: Callable[[Sequence[T]], ReducedCase | None],
    test: InterestingnessTest,
    *,
    whole: bool = True,
    kind_of: Callable[[T], Hashable] | None = None,
) -> ReducedCase:
    """Drop items until the rest is one-minimal: all of them, then halves, quarters, ...
    single ones (ddmin's complements).

    `build` makes the candidate that keeps the given items. With `whole`, the first
    attempt drops all items at once. `kind_of` groups equal items: whole groups are
    dropped first unless there are many. After three chunks of equal kinds could not be
    dropped, the others are skipped, because a chain that must be long has hundreds of
    equal links.

    Returns the candidate with the items left, or `candidate` itself if none was
    dropped.
    """
    kinds = [kind_of(item) if kind_of else None for item in items]
    left = list(range(len(items)))

    def drop(groups: Sequence[Sequence[int]]) -> None:
        """Go along groups of items once, and drop each that can be dropped."""
        nonlocal candidate, left
        refused: Counter[Hashable] = Counter()
        position = 0

        def smaller() -> Iterator[ReducedCase]:
            # Several jobs try groups before the answers to those in front of them,
            # which are taken to be refused. If one is not, those behind it are tried
            # anew.
            assumed = refused.copy()
            for number in range(position, len(groups)):
                key = tuple(kinds[index] for index in groups[number])
                if kind_of and assumed[key] >= _MOST_REFUSED:
                    continue
                dropped = set(groups[number])
                made = build([items[index] for index in left if index not in dropped])
                if made is not None:
                    assumed[key] += 1
                    tried.append((made, number, key))
                    yield made

        tried: list[tuple[ReducedCase, int, Hashable]] = []
        while (found := test.first(smaller())) is not None:
            for made, number, key in tried:
                refused[key] += 1
                if made is found:
                    position, refused[key] = number + 1, 0
                    dropped = set(groups[number])
                    break
            left = [index for index in left if index not in dropped]
            candidate = found
            tried.clear()

    if whole and left:
        drop([left])
    if kind_of and left:
        repeated = [kind for kind, count in Counter(kinds).items() if count > 1]
        groups = [[i for i in left if kinds[i] == kind] for kind in repeated]
        if len(groups) <= MOST_KINDS:
            drop([group for group in groups if group != left])
    size = (len(left) + 1) // 2
    while left:
        before = len(left)
        drop([left[start : start + size] for start in range(0, before, size)])
        if size == 1 and len(left) == before:
            break
        size = max(1, min(size // 2, len(left)))
    return candidate


def greedily(changes: Callable[[ReducedCase], Iterable[ReducedCase]]) -> Pass:
    """Make a pass that applies one interesting change after another until none is left.

    `changes` yields all changed candidates in a stable order. After a change, the
    search continues at the same position of the new candidate's changes.
    """

    @wraps(changes)
    def run(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
        position, tried = 0, list[tuple[int, ReducedCase]]()

        def candidates() -> Iterator[ReducedCase]:
            later = islice(enumerate(changes(candidate)), position, None)
            for number, changed in later:
                is_new = (changed.program.content, changed.case) != (
                    candidate.program.content,
                    candidate.case,
                )
                if is_new:
                    tried.append((number, changed))
                    yield changed

        while (found := test.first(candidates())) is not None:
            candidate = found
            position = next(number for number, changed in tried if changed is found)
            tried.clear()
        return candidate

    return run


def drop_flags(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop the flags that the failure does not need."""
    flags = candidate.case.flags
    return minimise(
        candidate,
        flags,
        lambda kept: candidate.with_case(flags=tuple(kept)),
        test,
        whole=len(flags) > 1,
    )


def fewer_devices(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Compile for one or two devices, or half of them."""
    target = candidate.case.target
    devices = target.devices or 0
    numbers = dict.fromkeys((1, 2, devices // 2))
    fewer = (
        candidate.with_case(target=replace(target, devices=number))
        for number in numbers
        if 0 < number < devices
    )
    return test.first(fewer) or candidate


def drop_options(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop the options of a kernel, and the hints about its arguments, that the failure
    does not need.
    """
    kernel = kernel_of(candidate.case)
    if kernel is None:
        return candidate

    def build(kept: Sequence[tuple[str, str]]) -> ReducedCase:
        options, hints = (
            {
                name: value
                for name, value in getattr(kernel, field).items()
                if (field, name) in kept
            }
            for field in ("options", "hints")
        )
        return candidate.with_case(spec=replace(kernel, options=options, hints=hints))

    items = [
        (field, name)
        for field in ("options", "hints")
        for name in getattr(kernel, field)
    ]
    return minimise(candidate, items, build, test)
