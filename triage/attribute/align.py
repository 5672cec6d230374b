"""Record the states of each function during a run, align the passes of two runs, and find where their IR diverges."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from itertools import takewhile

from triage.mlir.fingerprint import Fingerprint, combined
from triage.mlir.ir_reader import IrDump, PassName


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
    """The states of one run.

    Attributes:
        program: All functions together, for as long as the whole program is printed.
        device: The functions that were inside an executable.
        last: The functions of the last dump.
        failed: The first dump of a pass that failed.
        passes: All passes that changed IR, by name; most of what they change, such as index computations, makes no new state.
    """

    program: list[FunctionState] = field(default_factory=list)
    functions: dict[str, list[FunctionState]] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    last: tuple[str, ...] = ()
    failed: IrDump | None = None
    passes: dict[str, PassName] = field(default_factory=dict)
    dumps: int = 0

    @property
    def failing_functions(self) -> tuple[str, ...]:
        """The device functions of the pass that failed, or of the last dump; empty if that pass ran on the program."""
        names = tuple(self.failed.module.functions) if self.failed else self.last
        return names if all(name in self.device for name in names) else ()


class Tracer:
    """Takes the dumps of a run in order and records changes."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._current: dict[str, Fingerprint] = {}

    def take(self, dump: IrDump) -> None:
        """Record a dump. A dump of some functions updates those; a dump of the program replaces all."""
        trace, module = self.trace, dump.module
        trace.dumps += 1
        trace.passes.setdefault(_pass_key(dump.after), dump.after)
        trace.device |= module.device
        if dump.failed and trace.failed is None:
            trace.failed = dump
        if not module.functions:
            return
        trace.last = tuple(module.functions)
        for name, fingerprint in module.functions.items():
            _record(trace.functions.setdefault(name, []), dump, fingerprint)
        if all(name in trace.device for name in module.functions):
            return  # the program's own dumps contain its executables
        self._current = {**({} if module.contains_functions else self._current), **module.functions}
        _record(trace.program, dump, combined(self._current.values()))


def _record(states: list[FunctionState], dump: IrDump, fingerprint: Fingerprint) -> None:
    if not states or states[-1].fingerprint != fingerprint:
        states.append(FunctionState(dump.after, fingerprint, dump.index, dump.turn, dump.failed))


SameTest = Callable[[Fingerprint, Fingerprint], bool]
StatePair = tuple[FunctionState | None, FunctionState | None]


@dataclass(frozen=True, slots=True)
class AlignedPass:
    """A pass that changed a side: the state it left on each, None if that side did not change. `same`: equal after it."""

    good: FunctionState | None
    bad: FunctionState | None
    states_before: StatePair
    same: bool

    @property
    def pass_name(self) -> str:
        state = self.bad or self.good
        assert state is not None
        return state.after.name

    @property
    def one_sided(self) -> bool:
        return self.good is None or self.bad is None

    @property
    def states_after(self) -> StatePair:
        return self.good or self.states_before[0], self.bad or self.states_before[1]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two sequences diverge persistently, and the first pass whose difference later passes undo, if any."""

    persistent: AlignedPass
    first: AlignedPass | None = None


def find_divergence(
    good: Sequence[FunctionState],
    bad: Sequence[FunctionState],
    renamed: Mapping[str, str],
    *,
    ended_early: tuple[bool, bool] = (False, False),
    same: SameTest = Fingerprint.same_as,
) -> Divergence | None:
    """Find where two sequences of states diverge; None if they end equal.

    `renamed` maps old names of passes to new ones. Passes that only one side reached do not count if the other ended early.
    """
    good, bad = ([state for state in states if not state.failed] for states in (good, bad))
    passes = list(align(good, bad, renamed, same))
    while passes and ((ended_early[1] and passes[-1].bad is None) or (ended_early[0] and passes[-1].good is None)):
        passes.pop()
    if not passes or passes[-1].same:
        return None
    persistent = 1 + max((index for index, aligned in enumerate(passes) if aligned.same), default=-1)
    first = next(index for index, aligned in enumerate(passes) if not aligned.same)
    return Divergence(passes[persistent], passes[first] if first != persistent else None)


def align(
    good: Sequence[FunctionState], bad: Sequence[FunctionState], renamed: Mapping[str, str], same: SameTest
) -> Iterator[AlignedPass]:
    """Yield the passes of both runs in order, matched by name.

    In a stretch of unmatched passes, a state counts as equal if the other side reaches it within the stretch too.
    """
    good_keys, bad_keys = ([_key(state, renamed) for state in states] for states in (good, bad))
    matcher = SequenceMatcher(None, good_keys, bad_keys, autojunk=False)

    here: FunctionState | None = None
    there: FunctionState | None = None
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for left, right in zip(good[i:i_end], bad[j:j_end], strict=True):
                yield AlignedPass(left, right, (here, there), _equal(left, right, same))
                here, there = left, right
            continue
        there_before = there
        lefts, rights = list(good[i:i_end]), list(bad[j:j_end])
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


def _key(state: FunctionState, renamed: Mapping[str, str]) -> str:
    """Return the class of the pass without `Pass` at the end, which many names gained between versions."""
    name = _pass_key(state.after)
    return renamed.get(name, name)


def _pass_key(after: PassName) -> str:
    return after.name.removesuffix("Pass")


@dataclass(frozen=True, slots=True)
class LocatedPass:
    """A pass and the function it changed, by its name on each side; None for the whole program."""

    aligned: AlignedPass
    good: str | None = None
    bad: str | None = None


@dataclass(frozen=True, slots=True)
class FollowedDivergence:
    """Where two runs diverge, in one device function, by its name on each side, or in the program.

    `persistent` and `first` are as in `Divergence`; `decided` is a later difference in choices, such as tile sizes; `one_sided`
    as `one_sided_passes` lists them.
    """

    good: str | None = None
    bad: str | None = None
    persistent: LocatedPass | None = None
    first: LocatedPass | None = None
    decided: LocatedPass | None = None
    one_sided: tuple[PassName, ...] = ()


@dataclass(frozen=True, slots=True)
class TracePair:
    """Both runs' traces, with the arguments of `find_divergence`, and the failure, which may name a function.

    `kernel`: the beginning of the names of the functions to follow. `same`: the differences that count.
    """

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    ended_early: tuple[bool, bool]
    failure_text: str = ""
    kernel: str | None = None
    same: SameTest = Fingerprint.same_as

    def divergence(self, good: Sequence[FunctionState], bad: Sequence[FunctionState]) -> Divergence | None:
        """Find where two sequences diverge.

        If they do, a pass that makes other choices, or one that works on one side only, is the answer as soon as its types
        persist, even if later passes make the operations equal again. Otherwise a pass that changes the types of the failing
        operation is. If that had other types from the beginning, all types count.
        """
        find = partial(find_divergence, good, bad, self.renamed, ended_early=self.ended_early)
        found = find(same=self.same)
        typed = find(same=Fingerprint.same_outline) if found else None
        if typed is None:
            return found
        if typed.persistent.one_sided or not _equal(*typed.persistent.states_after, Fingerprint.same_choices):
            return typed
        if shaped := find(same=Fingerprint.same_followed):
            before = shaped.persistent.states_before[1]
            return shaped if before and before.fingerprint.followed else typed
        return found


# From the differences that weigh most to those that later passes often change without effect.
_WEIGHTS: tuple[SameTest, ...] = (Fingerprint.same_operations, Fingerprint.same_outline, Fingerprint.same_as)


def one_sided_passes(traces: TracePair) -> tuple[PassName, ...]:
    """List the passes that changed IR on one side only, the bad side's first. A side that ended early has only its own."""
    good, bad = (
        {traces.renamed.get(key, key): name for key, name in trace.passes.items()} for trace in (traces.good, traces.bad)
    )
    only_bad = [] if traces.ended_early[0] else [name for key, name in bad.items() if key not in good]
    return (*only_bad, *([] if traces.ended_early[1] else [name for key, name in good.items() if key not in bad]))


def follow(traces: TracePair) -> FollowedDivergence:
    """Find where two runs diverge in the failing function; if that is unknown, the earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types, and that more than one in strides and
    address spaces of buffers.
    """
    found = FollowedDivergence()
    for same in _WEIGHTS:
        found = _follow(replace(traces, same=same))
        if found.persistent:
            break
    return found


def _follow(traces: TracePair) -> FollowedDivergence:
    failing = [name for name in sorted(traces.bad.device) if traces.kernel and f"{name}_".startswith(f"{traces.kernel}_")]
    if not failing and traces.ended_early[1]:
        failing = [name for name in traces.bad.failing_functions if name in traces.bad.functions]
    failing = failing or [name for name in sorted(traces.bad.device) if name in traces.failure_text]
    if failing:
        return max((_in_function(traces, name) for name in failing), key=lambda followed: followed.persistent is not None)
    program = _in_program(traces)
    if traces.bad.failed is not None:  # the failing pass ran on the program
        return program
    functions = [_in_function(traces, name) for name in sorted(traces.bad.device)]
    return min((followed for followed in (program, *functions) if followed.persistent), key=_dump_index, default=program)


def _in_program(traces: TracePair, name: str | None = None) -> FollowedDivergence:
    found = traces.divergence(traces.good.program, traces.bad.program)
    if found is None:
        return FollowedDivergence(None, name)
    return FollowedDivergence(None, name, LocatedPass(found.persistent), LocatedPass(found.first) if found.first else None)


def _in_function(traces: TracePair, name: str) -> FollowedDivergence:
    """Find the divergence in a device function, or in the program before it if the function differed from the start."""
    bad = traces.bad.functions[name]
    partner = counterpart(name, bad[0], traces.good, taken=traces.bad.device)
    if partner is None:
        return _in_program(traces, name)
    good = traces.good.functions[partner]
    found = traces.divergence(good, bad)
    if found is None:
        return FollowedDivergence(partner, name)
    here = LocatedPass(found.persistent, partner, name)
    chosen = find_divergence(good, bad, traces.renamed, ended_early=traces.ended_early, same=Fingerprint.same_choices)
    decided = None
    if chosen and chosen.persistent.states_after != found.persistent.states_after:
        decided = LocatedPass(chosen.persistent, partner, name)
    program = (_until(traces.good.program, good[0].index), _until(traces.bad.program, bad[0].index))
    if traces.same(good[0].fingerprint, bad[0].fingerprint):
        if _chose_for_other_types(traces, good, bad, found.persistent):
            typed = find_divergence(*program, traces.renamed, same=Fingerprint.same_outline)
            if typed:
                return FollowedDivergence(partner, name, LocatedPass(typed.persistent), None, here)
        first = LocatedPass(found.first, partner, name) if found.first else None
        return FollowedDivergence(partner, name, here, first, decided)
    before = find_divergence(*program, traces.renamed, same=traces.same)
    origin = LocatedPass(before.persistent) if before else LocatedPass(found.first or found.persistent, partner, name)
    # A function that became equal later has undone its original difference.
    if found.first:
        return FollowedDivergence(partner, name, here, origin, decided)
    return FollowedDivergence(partner, name, origin, None, decided)


def _chose_for_other_types(
    traces: TracePair, good: Sequence[FunctionState], bad: Sequence[FunctionState], aligned: AlignedPass
) -> bool:
    """Return whether a pass made other choices for equal operations whose types differed from the beginning."""
    after = aligned.states_after
    if not _equal(*after, lambda here, there: here.operations == there.operations):
        return False
    typed = align(good, bad, traces.renamed, Fingerprint.same_outline)
    return not any(earlier.same for earlier in takewhile(lambda earlier: earlier.states_after != after, typed))


def _until(states: Sequence[FunctionState], index: int) -> list[FunctionState]:
    return list(takewhile(lambda state: state.index <= index, states))


def _dump_index(found: FollowedDivergence) -> int:
    """Return the dump at which the bad side diverged, or that it had reached when the good side changed."""
    assert found.persistent is not None
    state = found.persistent.aligned.states_after[1] or found.persistent.aligned.good
    return state.index if state else 0


def counterpart(name: str, initial: FunctionState, other: Trace, taken: Collection[str] = ()) -> str | None:
    """Find a function in another run: by name, by name without numbers, otherwise by similar operations.

    A lowering may add functions. Those of the other run that have the name of a `taken` function, one of this run, are
    therefore no counterparts of a function with another name.
    """

    def similarity(candidate: str) -> tuple[bool, bool, float]:
        ratio = SequenceMatcher(None, _without_numbers(name), _without_numbers(candidate), autojunk=False).ratio()
        overlap = _overlap(initial.fingerprint, other.functions[candidate][0].fingerprint)
        return candidate == name, _without_numbers(candidate) == _without_numbers(name), ratio + overlap

    known = [candidate for candidate in other.device if other.functions.get(candidate)]
    free = [candidate for candidate in known if candidate not in taken or _without_numbers(candidate) == _without_numbers(name)]
    return max(sorted(free), key=similarity, default=None)


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _overlap(left: Fingerprint, right: Fingerprint) -> float:
    """Return the share of operations that both have, 0 to 1."""
    here, there = left.operations, right.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
