"""Find where the IR of two runs diverges: at the first pass after which a function, or
the program, never becomes equal again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from triage.mlir.fingerprint import Fingerprint, IrDump, combined, values_by_key
from triage.model.execution import PassName


@dataclass(frozen=True)
class FunctionState:
    """A function, or the program, after a pass changed it. `index` is the number of the
    dump.
    """

    after: PassName
    fingerprint: Fingerprint
    index: int
    failed: bool
    decisions: Mapping[str, set[str]]
    """The choices made so far, by operation: an attribute is dropped when its operation
    is lowered, but not its effect.
    """


States = Sequence[FunctionState]
SameTest = Callable[[FunctionState, FunctionState], bool]


def _same_operations(good: FunctionState, bad: FunctionState) -> bool:
    return good.fingerprint.same_operations(bad.fingerprint)


def _same_ir(good: FunctionState, bad: FunctionState) -> bool:
    """Return whether operations and types are the same."""
    return good.fingerprint.same_as(bad.fingerprint)


def _same_decisions(good: FunctionState, bad: FunctionState) -> bool:
    """Return whether both made the same choices, or other ones without an effect."""
    ours = good.decisions
    theirs = bad.decisions
    agree = all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())
    return agree or _same_ir(good, bad)


@dataclass
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
    was_stopped: bool = False
    """Whether a limit or a crash ended the run."""
    _current: dict[str, Fingerprint] = field(default_factory=dict)

    def add_dump(self, dump: IrDump) -> None:
        """Record a dump. A dump of some functions updates those; a dump of the program
        replaces all.
        """
        module = dump.module
        self.device |= module.device
        if dump.failed and self.failed is None:
            self.failed = dump
        if not module.functions:
            return
        self.last = tuple(module.functions)
        for name, fingerprint in module.functions.items():
            _add_state(self.functions.setdefault(name, []), dump, fingerprint)
        if all(name in self.device for name in module.functions):
            return  # the program's own dumps contain its executables
        if module.contains_functions:
            self._current = {}
        self._current = {**self._current, **module.functions}
        _add_state(self.program, dump, combined(self._current.values()))

    @property
    def ended_early(self) -> bool:
        """Whether passes are missing that the other run may have reached."""
        return self.was_stopped or self.failed is not None

    def failing_functions(self) -> list[str]:
        """Return the device functions of the pass that failed, or of the last dump."""
        names = list(self.failed.module.functions if self.failed else self.last)
        if self.ended_early and self.device.issuperset(names):
            return names
        return []


def _add_state(
    states: list[FunctionState], dump: IrDump, fingerprint: Fingerprint
) -> None:
    """Add the state after a dump, if it differs from the last one."""
    before = states[-1] if states else None
    if before and before.fingerprint == fingerprint:
        return
    decisions = dict(before.decisions) if before else {}
    decisions |= values_by_key(fingerprint.operation_choices)
    states.append(
        FunctionState(dump.after, fingerprint, dump.index, dump.failed, decisions)
    )


def _pass_class(after: PassName) -> str:
    """Return the class of the pass without `Pass` at the end, which many names gained
    between versions.
    """
    return after.name.removesuffix("Pass")


@dataclass(frozen=True)
class Pair:
    """Both runs after a pass that changed the IR of at least one of them."""

    good: FunctionState | None
    bad: FunctionState | None
    ran_on: str
    """`good`, `bad` or `both`."""
    same: bool
    """Whether both states are equal."""
    function: tuple[str, str] | None = None
    """The function that the pass changed, by its name on the good and the bad compiler;
    None for the whole program.
    """

    @property
    def passes(self) -> tuple[PassName | None, PassName | None]:
        """The pass on each compiler, if it changed something there."""
        good = self.good.after if self.good and self.ran_on != "bad" else None
        bad = self.bad.after if self.bad and self.ran_on != "good" else None
        return good, bad

    @property
    def dump_index(self) -> float:
        """The dump at which the bad run made the difference, or that it had reached
        when the good one did.
        """
        state = self.bad or self.good
        if state:
            return state.index
        return 0


@dataclass(frozen=True)
class Divergence:
    """The passes at which two runs diverge, in a device function or in the program."""

    good: str | None = None
    """The function that was followed, by its name on the good compiler; None for the
    program.
    """
    bad: str | None = None
    persistent: Pair | None = None
    """The pass that most likely makes the difference."""
    other: Pair | None = None
    """A second candidate."""

    @property
    def order(self) -> tuple[float, bool]:
        """A key for sorting: earlier ones first, and of one pass of the program that
        with a second candidate, such as a choice in a function.
        """
        first = self.persistent
        return first.dump_index if first else math.inf, self.other is None


@dataclass(frozen=True)
class Traces:
    """The traces of both runs."""

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    """Old name of a pass -> new one."""
    decides: bool = True
    """Whether choices are the compiler's decisions, and not all attributes."""

    def name_of(self, after: PassName) -> str:
        """Return the name by which the passes of both versions are matched."""
        name = _pass_class(after)
        return self.renamed.get(name, name)

    def find_lasting_difference(
        self, good: States, bad: States, same: SameTest
    ) -> Pair | None:
        """Find the first pass after which two sequences of states never become equal
        again, up to the end of the shorter run.
        """
        lasting = None
        for pair in self._until_the_end(list(self._aligned(good, bad, same))):
            if pair.same:
                lasting = None
            elif lasting is None:
                lasting = pair
        return lasting

    def _until_the_end(self, pairs: list[Pair]) -> list[Pair]:
        """Leave out passes that one run did not reach."""
        end = len(pairs)
        while end and (
            (pairs[end - 1].ran_on == "good" and self.bad.ended_early)
            or (pairs[end - 1].ran_on == "bad" and self.good.ended_early)
        ):
            end -= 1
        return pairs[:end]

    def _aligned(self, good: States, bad: States, same: SameTest) -> Iterator[Pair]:
        """Yield the passes of both runs in order, matched by name.

        In a stretch of unmatched passes, a state counts as equal if the other run
        reaches it within the stretch too.
        """

        def alike(left: FunctionState | None, right: FunctionState | None) -> bool:
            if left is None or right is None:
                return left is right
            return same(left, right)

        good, bad = (
            [state for state in run if not state.failed] for run in (good, bad)
        )
        good_names, bad_names = (
            [self.name_of(state.after) for state in run] for run in (good, bad)
        )
        left: FunctionState | None = None
        right: FunctionState | None = None
        matcher = SequenceMatcher(None, good_names, bad_names, autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            if tag == "equal":
                for left, right in zip(good[i:i_end], bad[j:j_end], strict=True):
                    yield Pair(left, right, "both", alike(left, right))
                continue
            lefts = (left, *good[i:i_end])
            rights = (right, *bad[j:j_end])
            for right in bad[j:j_end]:
                is_same = any(alike(state, right) for state in lefts)
                yield Pair(left, right, "bad", is_same)
            for left in good[i:i_end]:
                is_same = any(alike(left, state) for state in rights)
                yield Pair(left, right, "good", is_same)


def find_divergence(traces: Traces) -> Divergence:
    """Find where two runs diverge in the failing function; if that is unknown, the
    earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types.
    """
    divergence = Divergence()
    for same in (_same_operations, _same_ir):
        divergence = _find_divergence(traces, same)
        if divergence.persistent:
            break
    return divergence


def _find_divergence(traces: Traces, same: SameTest) -> Divergence:
    failing = traces.bad.failing_functions()
    if failing:
        followed = [_function_divergence(traces, name, same) for name in failing]
        return max(followed, key=lambda divergence: divergence.persistent is not None)
    divergences = [_program_divergence(traces, same)]
    if traces.bad.failed is None:  # else the failing pass ran on the program
        names = sorted(traces.bad.device)
        divergences += [_function_divergence(traces, name, same) for name in names]
    return min(divergences, key=lambda divergence: divergence.order)


def _program_divergence(
    traces: Traces, same: SameTest, function: str | None = None
) -> Divergence:
    """Find the divergence in the program. function: the one that is followed."""
    good = traces.good.program
    bad = traces.bad.program
    return Divergence(
        bad=function, persistent=traces.find_lasting_difference(good, bad, same)
    )


def _function_divergence(traces: Traces, name: str, same: SameTest) -> Divergence:
    """Find the divergence in a device function, or in the program before it if the
    function differed from the start.
    """
    bad = traces.bad.functions[name]
    partner = _counterpart(name, traces)
    if partner is None:
        return _program_divergence(traces, same, name)
    good = traces.good.functions[partner]
    changed = traces.find_lasting_difference(good, bad, same)
    if changed is None:
        return Divergence(partner, name)
    candidates = [changed]
    # a choice for equal operations comes first, one for others follows from them
    if traces.decides:
        chosen = traces.find_lasting_difference(good, bad, _same_decisions)
        candidates = [chosen, changed] if chosen else candidates
    same_start = same
    if _is_choice(candidates[0]):  # one for other types follows from the types
        same_start = _same_ir
    candidates = [replace(pair, function=(partner, name)) for pair in candidates]
    if not same_start(good[0], bad[0]):
        before = traces.find_lasting_difference(
            [state for state in traces.good.program if state.index <= good[0].index],
            [state for state in traces.bad.program if state.index <= bad[0].index],
            same_start,
        )
        if before:
            candidates = [before, *candidates[:-1]]
    first, *others = candidates
    states = (first.good, first.bad)
    different = (pair for pair in others if (pair.good, pair.bad) != states)
    return Divergence(partner, name, first, next(different, None))


def _is_choice(pair: Pair) -> bool:
    """Return whether a pass chose differently for as many operations of each kind."""
    if pair.good is None or pair.bad is None:
        return False
    return not pair.good.fingerprint.count_differences(pair.bad.fingerprint)


def _counterpart(name: str, traces: Traces) -> str | None:
    """Find the function of the good run with the most similar name."""

    def similarity(candidate: str) -> float:
        return SequenceMatcher(None, name, candidate, autojunk=False).ratio()

    names = traces.good.device & traces.good.functions.keys()
    return max(sorted(names), key=similarity, default=None)
