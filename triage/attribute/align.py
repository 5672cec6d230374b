"""Record the states of each function during a run, align the passes of two runs, and
find where their IR diverges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import takewhile

from triage.mlir.fingerprint import Fingerprint, combined, values_by_key
from triage.mlir.ir_reader import IrDump
from triage.model.pass_name import PassName


@dataclass(frozen=True, slots=True)
class FunctionState:
    """A function, or the program, after a pass changed it. `index` and `turn` identify
    the dump, as in `IrDump`.
    """

    after: PassName
    fingerprint: Fingerprint
    index: int
    turn: int
    failed: bool
    decisions: Mapping[str, set[str]]
    """The choices made so far, by operation: an attribute is dropped when its operation
    is lowered, but not its effect.
    """


SameTest = Callable[[FunctionState, FunctionState], bool]


def _same_operations(left: FunctionState, right: FunctionState) -> bool:
    return left.fingerprint.same_operations(right.fingerprint)


def _same(left: FunctionState, right: FunctionState) -> bool:
    return left.fingerprint.same_as(right.fingerprint)


def _same_decisions(left: FunctionState, right: FunctionState) -> bool:
    """Return whether both made the same choices, or other ones without an effect."""
    here, there = left.decisions, right.decisions
    return all(here[key] == there[key] for key in here.keys() & there.keys()) or _same(
        left, right
    )


@dataclass(slots=True)
class Trace:
    """The states of one run."""

    program: list[FunctionState] = field(default_factory=list)
    """All functions together, for as long as the whole program is printed."""
    functions: dict[str, list[FunctionState]] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    """The functions that were inside an executable."""
    last: tuple[str, ...] = ()
    """The functions of the last dump."""
    failed: IrDump | None = None
    """The first dump of a pass that failed."""
    passes: dict[str, PassName] = field(default_factory=dict)
    """All passes that changed IR, by name; most of what they change, such as index
    computations, makes no new state.
    """
    _current: dict[str, Fingerprint] = field(default_factory=dict)

    def take(self, dump: IrDump) -> None:
        """Record a dump. A dump of some functions updates those; a dump of the program
        replaces all.
        """
        module = dump.module
        self.passes.setdefault(_without_pass(dump.after), dump.after)
        self.device |= module.device
        if dump.failed and self.failed is None:
            self.failed = dump
        if not module.functions:
            return
        self.last = tuple(module.functions)
        for name, fingerprint in module.functions.items():
            _record(self.functions.setdefault(name, []), dump, fingerprint)
        if all(name in self.device for name in module.functions):
            return  # the program's own dumps contain its executables
        self._current = {
            **({} if module.contains_functions else self._current),
            **module.functions,
        }
        _record(self.program, dump, combined(self._current.values()))

    @property
    def failing_functions(self) -> tuple[str, ...]:
        """The device functions of the pass that failed, or of the last dump; empty if
        that pass ran on the program.
        """
        names = tuple(self.failed.module.functions) if self.failed else self.last
        if all(name in self.device for name in names):
            return names
        return ()


def _record(
    states: list[FunctionState], dump: IrDump, fingerprint: Fingerprint
) -> None:
    if not states or states[-1].fingerprint != fingerprint:
        decisions = {
            **(states[-1].decisions if states else {}),
            **values_by_key(fingerprint.decided),
        }
        states.append(
            FunctionState(
                dump.after, fingerprint, dump.index, dump.turn, dump.failed, decisions
            )
        )


def _without_pass(after: PassName) -> str:
    """Return the class of the pass without `Pass` at the end, which many names gained
    between versions.
    """
    return after.name.removesuffix("Pass")


def _key(after: PassName, renamed: Mapping[str, str]) -> str:
    name = _without_pass(after)
    return renamed.get(name, name)


StatePair = tuple[FunctionState | None, FunctionState | None]


@dataclass(frozen=True, slots=True)
class AlignedPass:
    """A pass that changed the IR of at least one compiler."""

    good: FunctionState | None
    """The state that it left on the good compiler, if it changed something there."""
    bad: FunctionState | None
    states_before: StatePair
    same: bool
    """Whether both states are equal after it."""
    functions: tuple[str | None, str | None] = (None, None)
    """The function that it changed, by its name on the good and the bad compiler; None
    for the whole program.
    """

    @property
    def after(self) -> PassName:
        state = self.bad or self.good
        assert state is not None
        return state.after

    @property
    def states_after(self) -> StatePair:
        return self.good or self.states_before[0], self.bad or self.states_before[1]

    @property
    def turn(self) -> int:
        """The dump at which the bad run made the difference, or that it had reached
        when the good one did.
        """
        state = self.states_after[1] or self.good
        if state:
            return state.index
        return 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs diverge, in one device function or in the program."""

    good: str | None = None
    """The function that was followed, by its name on the good compiler; None for the
    program.
    """
    bad: str | None = None
    persistent: AlignedPass | None = None
    """The pass that most likely makes the difference: after it the two never become
    equal again.
    """
    other: AlignedPass | None = None
    """A second candidate."""


@dataclass(frozen=True, slots=True)
class TracePair:
    """The traces of both runs, and what is known about the failure."""

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    """Old name of a pass -> new one."""
    ended_early: tuple[bool, bool]
    """Whether each run ended early, so that passes that only the other one reached do
    not count.
    """
    failure_text: str = ""
    """May name a function."""
    kernel: str | None = None
    """The beginning of the names of the functions to follow."""
    decides: bool = True
    """Whether choices are the compiler's decisions, and not all attributes."""

    def aligned(
        self,
        good: Sequence[FunctionState],
        bad: Sequence[FunctionState],
        same: SameTest,
    ) -> list[AlignedPass]:
        """Align two sequences of states up to the failing pass, or to the end of the
        shorter run.
        """
        good, bad = (
            [state for state in states if not state.failed] for states in (good, bad)
        )
        passes = list(align(good, bad, self.renamed, same))
        good_early, bad_early = self.ended_early
        common = len(passes)
        while common and (
            (bad_early and passes[common - 1].bad is None)
            or (good_early and passes[common - 1].good is None)
        ):
            common -= 1
        failing = _without_pass(self.bad.failed.after) if self.bad.failed else None
        reached = [
            number
            for number in range(common, len(passes))
            if _key(passes[number].after, self.renamed) == failing
        ]
        return passes[: reached[0] if reached else common]

    def find(
        self,
        good: Sequence[FunctionState],
        bad: Sequence[FunctionState],
        same: SameTest,
    ) -> AlignedPass | None:
        """Find the first pass after which two sequences of states never become equal
        again.
        """
        found = None
        for aligned in self.aligned(good, bad, same):
            if aligned.same:
                found = None
            elif found is None:
                found = aligned
        return found

    def find_decisive(
        self,
        good: Sequence[FunctionState],
        bad: Sequence[FunctionState],
        same: SameTest,
    ) -> AlignedPass | None:
        """Find where two sequences of states diverge; a pass of one run only counts as
        soon as its types persist.
        """
        found = self.find(good, bad, same)
        typed = self.find(good, bad, _same) if found else None
        if typed and (typed.good is None or typed.bad is None):
            return typed
        return found

    def one_sided_passes(self) -> tuple[PassName, ...]:
        """List the passes that changed IR in one run only, the bad one's first, without
        those after an early end.
        """
        good, bad = (
            {self.renamed.get(key, key): name for key, name in run.passes.items()}
            for run in (self.good, self.bad)
        )
        if self.ended_early[0]:
            only_bad = []
        else:
            only_bad = [name for key, name in bad.items() if key not in good]
        return (
            *only_bad,
            *(
                []
                if self.ended_early[1]
                else [name for key, name in good.items() if key not in bad]
            ),
        )


def align(
    good: Sequence[FunctionState],
    bad: Sequence[FunctionState],
    renamed: Mapping[str, str],
    same: SameTest,
) -> Iterator[AlignedPass]:
    """Yield the passes of both runs in order, matched by name.

    In a stretch of unmatched passes, a state counts as equal if the other run reaches
    it within the stretch too.
    """

    def equal(left: FunctionState | None, right: FunctionState | None) -> bool:
        if left is None or right is None:
            return left is right
        return same(left, right)

    good_keys, bad_keys = (
        [_key(state.after, renamed) for state in run] for run in (good, bad)
    )
    here: FunctionState | None = None
    there: FunctionState | None = None
    for tag, i, i_end, j, j_end in SequenceMatcher(
        None, good_keys, bad_keys, autojunk=False
    ).get_opcodes():
        lefts, rights = list(good[i:i_end]), list(bad[j:j_end])
        if tag == "equal":
            for left, right in zip(lefts, rights, strict=True):
                yield AlignedPass(left, right, (here, there), equal(left, right))
                here, there = left, right
            continue
        there_before = there
        for right in rights:
            yield AlignedPass(
                None,
                right,
                (here, there),
                any(equal(left, right) for left in (here, *lefts)),
            )
            there = right
        for left in lefts:
            is_same = any(equal(left, right) for right in (there_before, *rights))
            yield AlignedPass(
                left,
                None,
                (here, there),
                is_same if left is not lefts[-1] else equal(left, there),
            )
            here = left


def follow(traces: TracePair) -> Divergence:
    """Find where two runs diverge in the failing function; if that is unknown, the
    earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types.
    """
    found = _follow(traces, _same_operations)
    if found.persistent:
        return found
    return _follow(traces, _same)


def _follow(traces: TracePair, same: SameTest) -> Divergence:
    bad = traces.bad
    failing = [
        name
        for name in sorted(bad.device)
        if traces.kernel and f"{name}_".startswith(f"{traces.kernel}_")
    ]
    if not failing and traces.ended_early[1]:
        failing = [name for name in bad.failing_functions if name in bad.functions]
    failing = failing or [
        name for name in sorted(bad.device) if name in traces.failure_text
    ]
    if failing:
        return max(
            (_in_function(traces, name, same) for name in failing),
            key=lambda found: found.persistent is not None,
        )
    program = Divergence(
        persistent=traces.find_decisive(traces.good.program, bad.program, same)
    )
    if bad.failed is not None:  # the failing pass ran on the program
        return program
    found = [
        program,
        *(_in_function(traces, name, same) for name in sorted(bad.device)),
    ]
    return min(
        found, key=lambda each: each.persistent.turn if each.persistent else math.inf
    )


def _in_function(traces: TracePair, name: str, same: SameTest) -> Divergence:
    """Find the divergence in a device function, or in the program before it if the
    function differed from the start.
    """
    bad = traces.bad.functions[name]
    partner = _counterpart(name, bad[0], traces)
    if partner is None:
        return Divergence(
            bad=name,
            persistent=traces.find_decisive(
                traces.good.program, traces.bad.program, same
            ),
        )
    good = traces.good.functions[partner]
    inside = traces.find_decisive(good, bad, same)
    if inside is None:
        return Divergence(partner, name)
    chosen = traces.find(good, bad, _same_decisions) if traces.decides else None
    began_same = same(good[0], bad[0])
    choice = chosen or (inside if _same_counts(*inside.states_after) else None)
    level, anchor = same, inside
    if choice and began_same:
        level, anchor = _same, choice
    earlier = takewhile(
        lambda each: each.states_after != anchor.states_after,
        traces.aligned(good, bad, level),
    )
    before = None
    if not any(aligned.same for aligned in earlier):  # it differed from the start
        before = traces.find(
            _until(traces.good.program, good[0].index),
            _until(traces.bad.program, bad[0].index),
            level,
        )
    if before:
        candidates = [before, chosen or (inside if began_same else None)]
    else:
        inside_decides = chosen is None or not _same_operands(*chosen.states_after)
        candidates = [inside, chosen] if inside_decides else [chosen, inside]
    first, *others = (
        each if each is before else replace(each, functions=(partner, name))
        for each in candidates
        if each is not None
    )
    different = (each for each in others if each.states_after != first.states_after)
    return Divergence(partner, name, first, next(different, None))


def _until(states: Sequence[FunctionState], index: int) -> list[FunctionState]:
    return [state for state in states if state.index <= index]


def _same_counts(good: FunctionState | None, bad: FunctionState | None) -> bool:
    return (
        good is not None
        and bad is not None
        and good.fingerprint.operations == bad.fingerprint.operations
    )


def _same_operands(good: FunctionState | None, bad: FunctionState | None) -> bool:
    """Return whether choices were made for the same operations of the same types, apart
    from those for the function.
    """
    here, there = (
        {key for key, _ in state.fingerprint.decided if " () -> () " not in key}
        if state
        else set[str]()
        for state in (good, bad)
    )
    return not here or not there or not here.isdisjoint(there)


def _counterpart(name: str, initial: FunctionState, traces: TracePair) -> str | None:
    """Find a function in the good run: by name, by name without numbers, otherwise by
    similar operations.

    A lowering may add functions. Those that have the name of another function of the
    bad run are therefore left out.
    """

    def without_numbers(text: str) -> str:
        return re.sub(r"\d+", "#", text)

    def similarity(candidate: str) -> tuple[bool, bool, float]:
        ratio = SequenceMatcher(
            None, without_numbers(name), without_numbers(candidate), autojunk=False
        ).ratio()
        overlap = _overlap(
            initial.fingerprint, traces.good.functions[candidate][0].fingerprint
        )
        return (
            candidate == name,
            without_numbers(candidate) == without_numbers(name),
            ratio + overlap,
        )

    known = [
        candidate
        for candidate in traces.good.device
        if traces.good.functions.get(candidate)
    ]
    free = [
        each
        for each in known
        if each not in traces.bad.device
        or without_numbers(each) == without_numbers(name)
    ]
    return max(sorted(free), key=similarity, default=None)


def _overlap(left: Fingerprint, right: Fingerprint) -> float:
    """Return the share of operations that both have, 0 to 1."""
    here, there = left.operations, right.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
