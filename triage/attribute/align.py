"""Record the states of each function during a run, align the passes of two runs, and find where their IR diverges."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import takewhile

from triage.mlir.fingerprint import Fingerprint, combined
from triage.mlir.ir_reader import IrDump, PassName

SameTest = Callable[[Fingerprint, Fingerprint], bool]


@dataclass(frozen=True, slots=True)
class FunctionState:
    """A function, or the program, after a pass changed it. `index` and `turn` identify the dump, as in `IrDump`."""

    after: PassName
    fingerprint: Fingerprint
    index: int
    turn: int
    failed: bool = False


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
    """All passes that changed IR, by name; most of what they change, such as index computations, makes no new state."""
    _current: dict[str, Fingerprint] = field(default_factory=dict)

    def take(self, dump: IrDump) -> None:
        """Record a dump. A dump of some functions updates those; a dump of the program replaces all."""
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
        self._current = {**({} if module.contains_functions else self._current), **module.functions}
        _record(self.program, dump, combined(self._current.values()))

    @property
    def failing_functions(self) -> tuple[str, ...]:
        """The device functions of the pass that failed, or of the last dump; empty if that pass ran on the program."""
        names = tuple(self.failed.module.functions) if self.failed else self.last
        return names if all(name in self.device for name in names) else ()


def _record(states: list[FunctionState], dump: IrDump, fingerprint: Fingerprint) -> None:
    if not states or states[-1].fingerprint != fingerprint:
        states.append(FunctionState(dump.after, fingerprint, dump.index, dump.turn, dump.failed))


def _without_pass(after: PassName) -> str:
    """Return the class of the pass without `Pass` at the end, which many names gained between versions."""
    return after.name.removesuffix("Pass")


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
    """The function that it changed, by its name on the good and the bad compiler; None for the whole program."""

    @property
    def pass_name(self) -> str:
        state = self.bad or self.good
        assert state is not None
        return state.after.name

    @property
    def states_after(self) -> StatePair:
        return self.good or self.states_before[0], self.bad or self.states_before[1]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs diverge, in one device function or in the program."""

    good: str | None = None
    """The function that was followed, by its name on the good compiler; None for the program."""
    bad: str | None = None
    persistent: AlignedPass | None = None
    """The first pass after which the two never become equal again."""
    first: AlignedPass | None = None
    """An earlier pass whose difference later passes undo."""
    decided: AlignedPass | None = None
    """A later pass with another persistent difference in choices, such as tile sizes."""


@dataclass(frozen=True, slots=True)
class TracePair:
    """The traces of both runs, and what is known about the failure."""

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    """Old name of a pass -> new one."""
    ended_early: tuple[bool, bool]
    """Whether each run ended early, so that passes that only the other one reached do not count."""
    failure_text: str = ""
    """May name a function."""
    kernel: str | None = None
    """The beginning of the names of the functions to follow."""

    def find(self, good: Sequence[FunctionState], bad: Sequence[FunctionState], same: SameTest) -> Divergence | None:
        """Find where two sequences of states diverge persistently, if they do not end equal."""
        good, bad = ([state for state in states if not state.failed] for states in (good, bad))
        passes = list(align(good, bad, self.renamed, same))
        good_early, bad_early = self.ended_early
        while passes and ((bad_early and passes[-1].bad is None) or (good_early and passes[-1].good is None)):
            passes.pop()
        if not passes or passes[-1].same:
            return None
        persistent = 1 + max((index for index, aligned in enumerate(passes) if aligned.same), default=-1)
        first = next(index for index, aligned in enumerate(passes) if not aligned.same)
        return Divergence(persistent=passes[persistent], first=passes[first] if first != persistent else None)

    def find_decisive(self, good: Sequence[FunctionState], bad: Sequence[FunctionState], same: SameTest) -> Divergence | None:
        """Find where two sequences of states diverge.

        If they do, a pass that makes other choices, or one that works in one run only, is the answer as soon as its types
        persist, even if later passes make the operations equal again.
        """
        found = self.find(good, bad, same)
        typed = self.find(good, bad, Fingerprint.same_as) if found else None
        if typed and typed.persistent:
            one_sided = typed.persistent.good is None or typed.persistent.bad is None
            if one_sided or not _equal(*typed.persistent.states_after, Fingerprint.same_choices):
                return typed
        return found

    def one_sided_passes(self) -> tuple[PassName, ...]:
        """List the passes that changed IR in one run only, the bad one's first, without those after an early end."""
        good, bad = ({self.renamed.get(key, key): name for key, name in run.passes.items()} for run in (self.good, self.bad))
        only_bad = [] if self.ended_early[0] else [name for key, name in bad.items() if key not in good]
        return (*only_bad, *([] if self.ended_early[1] else [name for key, name in good.items() if key not in bad]))


def align(
    good: Sequence[FunctionState], bad: Sequence[FunctionState], renamed: Mapping[str, str], same: SameTest
) -> Iterator[AlignedPass]:
    """Yield the passes of both runs in order, matched by name.

    In a stretch of unmatched passes, a state counts as equal if the other run reaches it within the stretch too.
    """
    good_keys, bad_keys = (
        [renamed.get(_without_pass(state.after), _without_pass(state.after)) for state in run] for run in (good, bad)
    )
    here: FunctionState | None = None
    there: FunctionState | None = None
    for tag, i, i_end, j, j_end in SequenceMatcher(None, good_keys, bad_keys, autojunk=False).get_opcodes():
        lefts, rights = list(good[i:i_end]), list(bad[j:j_end])
        if tag == "equal":
            for left, right in zip(lefts, rights, strict=True):
                yield AlignedPass(left, right, (here, there), _equal(left, right, same))
                here, there = left, right
            continue
        there_before = there
        for right in rights:
            yield AlignedPass(None, right, (here, there), any(_equal(left, right, same) for left in (here, *lefts)))
            there = right
        for left in lefts:
            is_same = any(_equal(left, right, same) for right in (there_before, *rights))
            yield AlignedPass(left, None, (here, there), is_same if left is not lefts[-1] else _equal(left, there, same))
            here = left


def _equal(left: FunctionState | None, right: FunctionState | None, same: SameTest) -> bool:
    if left is None or right is None:
        return left is right
    return same(left.fingerprint, right.fingerprint)


def follow(traces: TracePair) -> Divergence:
    """Find where two runs diverge in the failing function; if that is unknown, the earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types.
    """
    found = _follow(traces, Fingerprint.same_operations)
    return found if found.persistent else _follow(traces, Fingerprint.same_as)


def _follow(traces: TracePair, same: SameTest) -> Divergence:
    bad = traces.bad
    failing = [name for name in sorted(bad.device) if traces.kernel and f"{name}_".startswith(f"{traces.kernel}_")]
    if not failing and traces.ended_early[1]:
        failing = [name for name in bad.failing_functions if name in bad.functions]
    failing = failing or [name for name in sorted(bad.device) if name in traces.failure_text]
    if failing:
        return max((_in_function(traces, name, same) for name in failing), key=lambda found: found.persistent is not None)
    program = traces.find_decisive(traces.good.program, bad.program, same) or Divergence()
    if bad.failed is not None:  # the failing pass ran on the program
        return program
    found = [program, *(_in_function(traces, name, same) for name in sorted(bad.device))]
    return min((each for each in found if each.persistent), key=_dump_index, default=program)


def _in_function(traces: TracePair, name: str, same: SameTest) -> Divergence:
    """Find the divergence in a device function, or in the program before it if the function differed from the start."""
    bad = traces.bad.functions[name]
    partner = counterpart(name, bad[0], traces.good, taken=traces.bad.device)
    if partner is None:
        return replace(traces.find_decisive(traces.good.program, traces.bad.program, same) or Divergence(), bad=name)

    def here(aligned: AlignedPass | None) -> AlignedPass | None:
        return replace(aligned, functions=(partner, name)) if aligned else None

    good = traces.good.functions[partner]
    found = traces.find_decisive(good, bad, same)
    if found is None or found.persistent is None:
        return Divergence(partner, name)
    persistent, first = here(found.persistent), here(found.first)
    chosen = traces.find(good, bad, Fingerprint.same_choices)
    is_later = chosen and chosen.persistent and chosen.persistent.states_after != found.persistent.states_after
    decided = here(chosen.persistent) if chosen and is_later else None
    program = (_until(traces.good.program, good[0].index), _until(traces.bad.program, bad[0].index))
    if same(good[0].fingerprint, bad[0].fingerprint):
        if _chose_for_other_types(traces, good, bad, found.persistent):
            typed = traces.find(*program, Fingerprint.same_as)
            if typed:
                return Divergence(partner, name, typed.persistent, decided=persistent)
        return Divergence(partner, name, persistent, first, decided)
    before = traces.find(*program, same)
    origin = before.persistent if before else first or persistent
    # A function that became equal later has undone its original difference.
    return Divergence(partner, name, persistent if first else origin, origin if first else None, decided)


def _chose_for_other_types(
    traces: TracePair, good: Sequence[FunctionState], bad: Sequence[FunctionState], aligned: AlignedPass
) -> bool:
    """Return whether a pass made other choices for equal operations whose types differed from the beginning."""
    after = aligned.states_after
    if not _equal(*after, lambda here, there: here.operations == there.operations):
        return False
    typed = align(good, bad, traces.renamed, Fingerprint.same_as)
    return not any(earlier.same for earlier in takewhile(lambda earlier: earlier.states_after != after, typed))


def _until(states: Sequence[FunctionState], index: int) -> list[FunctionState]:
    return list(takewhile(lambda state: state.index <= index, states))


def _dump_index(found: Divergence) -> int:
    """Return the dump at which the bad run diverged, or that it had reached when the good one changed."""
    assert found.persistent is not None
    state = found.persistent.states_after[1] or found.persistent.good
    return state.index if state else 0


def counterpart(name: str, initial: FunctionState, other: Trace, taken: Collection[str] = ()) -> str | None:
    """Find a function in another run: by name, by name without numbers, otherwise by similar operations.

    A lowering may add functions. Those of the other run that have the name of a `taken` function, one of this run, are
    therefore no counterparts of a function with another name.
    """

    def without_numbers(text: str) -> str:
        return re.sub(r"\d+", "#", text)

    def similarity(candidate: str) -> tuple[bool, bool, float]:
        ratio = SequenceMatcher(None, without_numbers(name), without_numbers(candidate), autojunk=False).ratio()
        overlap = _overlap(initial.fingerprint, other.functions[candidate][0].fingerprint)
        return candidate == name, without_numbers(candidate) == without_numbers(name), ratio + overlap

    known = [candidate for candidate in other.device if other.functions.get(candidate)]
    free = [candidate for candidate in known if candidate not in taken or without_numbers(candidate) == without_numbers(name)]
    return max(sorted(free), key=similarity, default=None)


def _overlap(left: Fingerprint, right: Fingerprint) -> float:
    """Return the share of operations that both have, 0 to 1."""
    here, there = left.operations, right.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
