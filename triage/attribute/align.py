"""Find where the IR of two runs diverges: at the first pass after which a function, or
the program, never becomes equal again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

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


States = Sequence[FunctionState]
SameTest = Callable[[FunctionState, FunctionState], bool]


def _same_operations(good: FunctionState, bad: FunctionState) -> bool:
    return good.fingerprint.same_operations(bad.fingerprint)


def _same_ir(good: FunctionState, bad: FunctionState) -> bool:
    """Return whether operations and types are the same."""
    return good.fingerprint.same_as(bad.fingerprint)


def _same_decisions(good: FunctionState, bad: FunctionState) -> bool:
    """Return whether both made the same choices, or other ones without an effect."""
    ours, theirs = good.decisions, bad.decisions
    agree = all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())
    return agree or _same_ir(good, bad)


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
    was_stopped: bool = False
    """Whether a limit or a crash ended the run."""
    _current: dict[str, Fingerprint] = field(default_factory=dict)

    def add_dump(self, dump: IrDump) -> None:
        """Record a dump. A dump of some functions updates those; a dump of the program
        replaces all.
        """
        module = dump.module
        self.passes.setdefault(_class_of(dump.after), dump.after)
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

    @property
    def failing_functions(self) -> tuple[str, ...]:
        """The device functions of the pass that failed, or of the last dump; empty if
        that pass ran on the program.
        """
        names = tuple(self.failed.module.functions) if self.failed else self.last
        return names if self.device.issuperset(names) else ()


def _add_state(
    states: list[FunctionState], dump: IrDump, fingerprint: Fingerprint
) -> None:
    """Add the state after a dump, if it differs from the last one."""
    before = states[-1] if states else None
    if before and before.fingerprint == fingerprint:
        return
    decisions = dict(before.decisions) if before else {}
    decisions |= values_by_key(fingerprint.decided)
    states.append(
        FunctionState(
            dump.after, fingerprint, dump.index, dump.turn, dump.failed, decisions
        )
    )


def _class_of(after: PassName) -> str:
    """Return the class of the pass without `Pass` at the end, which many names gained
    between versions.
    """
    return after.name.removesuffix("Pass")


def _current_name(after: PassName, renamed: Mapping[str, str]) -> str:
    """Return the name by which the passes of both versions are matched."""
    name = _class_of(after)
    return renamed.get(name, name)


@dataclass(frozen=True, slots=True)
class Pair:
    """The states of both runs at one time; None before the first one."""

    good: FunctionState | None = None
    bad: FunctionState | None = None

    def is_alike(self, same: SameTest) -> bool:
        if self.good is None or self.bad is None:
            return self.good is self.bad
        return same(self.good, self.bad)

    @property
    def fingerprints(self) -> tuple[Fingerprint, Fingerprint]:
        good, bad = (
            state.fingerprint if state else Fingerprint()
            for state in (self.good, self.bad)
        )
        return good, bad


@dataclass(frozen=True, slots=True)
class AlignedPass:
    """A pass that changed the IR of at least one compiler."""

    changed: Pair
    """The state that it left on each compiler, if it changed something there."""
    states: Pair
    """The states after it."""
    same: bool
    """Whether both states are equal after it."""
    function: tuple[str, str] | None = None
    """The function that it changed, by its name on the good and the bad compiler; None
    for the whole program.
    """

    @property
    def after(self) -> PassName:
        state = self.changed.bad or self.changed.good
        assert state is not None
        return state.after

    @property
    def dump_index(self) -> int:
        """The dump at which the bad run made the difference, or that it had reached
        when the good one did.
        """
        state = self.states.bad or self.states.good
        return state.index if state else 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The passes at which two runs diverge, in a device function or in the program."""

    good: str | None = None
    """The function that was followed, by its name on the good compiler; None for the
    program.
    """
    bad: str | None = None
    persistent: AlignedPass | None = None
    """The pass that most likely makes the difference."""
    other: AlignedPass | None = None
    """A second candidate."""


@dataclass(frozen=True, slots=True)
class TracePair:
    """The traces of both runs, and what is known about the failure."""

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    """Old name of a pass -> new one."""
    failure_text: str = ""
    """May name a function."""
    kernel: str | None = None
    """The beginning of the names of the functions to follow."""
    decides: bool = True
    """Whether choices are the compiler's decisions, and not all attributes."""

    def find_lasting(
        self, good: States, bad: States, same: SameTest
    ) -> AlignedPass | None:
        """Find the first pass after which two sequences of states never become equal
        again.
        """
        lasting = None
        for aligned in self._aligned(good, bad, same):
            if aligned.same:
                lasting = None
            elif lasting is None:
                lasting = aligned
        return lasting

    def find_decisive(
        self, good: States, bad: States, same: SameTest
    ) -> AlignedPass | None:
        """Find where two sequences of states diverge. If a pass of one run only changes
        types that never become equal again, it is the answer.
        """
        lasting = self.find_lasting(good, bad, same)
        typed = self.find_lasting(good, bad, _same_ir) if lasting else None
        if typed and None in (typed.changed.good, typed.changed.bad):
            return typed
        return lasting

    def _aligned(self, good: States, bad: States, same: SameTest) -> list[AlignedPass]:
        """Align two sequences of states up to the failing pass, or to the end of the
        shorter run.
        """
        good, bad = (
            [state for state in states if not state.failed] for states in (good, bad)
        )
        passes = list(align(good, bad, self.renamed, same))
        end = len(passes)
        while end and self._is_beyond_early_end(passes[end - 1].changed):
            end -= 1
        if self.bad.failed:
            failing = _class_of(self.bad.failed.after)
            names = [_current_name(each.after, self.renamed) for each in passes]
            if failing in names[end:]:
                end = names.index(failing, end)
        return passes[:end]

    def _is_beyond_early_end(self, changed: Pair) -> bool:
        """Return whether only one run has a pass, and the other one ended early."""
        return (changed.bad is None and self.bad.ended_early) or (
            changed.good is None and self.good.ended_early
        )

    def one_sided_passes(self) -> tuple[PassName, ...]:
        """List the passes that changed IR in one run only, the bad one's first, without
        those after an early end.
        """
        good, bad = (
            {self.renamed.get(key, key): name for key, name in run.passes.items()}
            for run in (self.good, self.bad)
        )
        names: list[PassName] = []
        if not self.good.ended_early:
            names += [name for key, name in bad.items() if key not in good]
        if not self.bad.ended_early:
            names += [name for key, name in good.items() if key not in bad]
        return tuple(names)


def align(
    good: States, bad: States, renamed: Mapping[str, str], same: SameTest
) -> Iterator[AlignedPass]:
    """Yield the passes of both runs in order, matched by name.

    In a stretch of unmatched passes, a state counts as equal if the other run reaches
    it within the stretch too.
    """
    good_names, bad_names = (
        [_current_name(state.after, renamed) for state in run] for run in (good, bad)
    )
    now = Pair()
    matcher = SequenceMatcher(None, good_names, bad_names, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for states in zip(good[i:i_end], bad[j:j_end], strict=True):
                now = Pair(*states)
                yield AlignedPass(now, now, now.is_alike(same))
            continue
        lefts, rights = (now.good, *good[i:i_end]), (now.bad, *bad[j:j_end])
        for right in bad[j:j_end]:
            alike = any(Pair(left, right).is_alike(same) for left in lefts)
            now = Pair(now.good, right)
            yield AlignedPass(Pair(None, right), now, alike)
        for left in good[i:i_end]:
            # after the last one, only where both ended counts
            ends = (now.bad,) if left is good[i_end - 1] else rights
            alike = any(Pair(left, right).is_alike(same) for right in ends)
            now = Pair(left, now.bad)
            yield AlignedPass(Pair(left, None), now, alike)


def find_divergence(traces: TracePair) -> Divergence:
    """Find where two runs diverge in the failing function; if that is unknown, the
    earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types.
    """
    divergence = _find_divergence(traces, _same_operations)
    return divergence if divergence.persistent else _find_divergence(traces, _same_ir)


def _find_divergence(traces: TracePair, same: SameTest) -> Divergence:
    failing = _failing_functions(traces)
    if failing:
        followed = [_in_function(traces, name, same) for name in failing]
        return max(followed, key=lambda each: each.persistent is not None)
    program = _in_program(traces, same)
    if traces.bad.failed is not None:  # the failing pass ran on the program
        return program
    device = sorted(traces.bad.device)
    return min(
        [program, *(_in_function(traces, name, same) for name in device)], key=_order
    )


def _order(divergence: Divergence) -> tuple[float, bool]:
    """Return a key for sorting: earlier ones first, and of one pass of the program that
    with a second candidate, such as a choice in a function.
    """
    first = divergence.persistent
    return first.dump_index if first else math.inf, divergence.other is None


def _failing_functions(traces: TracePair) -> list[str]:
    """Return the device functions that the kernel, the failing pass or else the text of
    the failure names.
    """
    bad, device = traces.bad, sorted(traces.bad.device)
    failing: list[str] = []
    if traces.kernel:
        begin = f"{traces.kernel}_"
        failing = [name for name in device if f"{name}_".startswith(begin)]
    if not failing and bad.ended_early:
        failing = [name for name in bad.failing_functions if name in bad.functions]
    return failing or [name for name in device if name in traces.failure_text]


def _in_program(
    traces: TracePair, same: SameTest, function: str | None = None
) -> Divergence:
    """Find the divergence in the program. function: the one that is followed."""
    good, bad = traces.good.program, traces.bad.program
    return Divergence(bad=function, persistent=traces.find_decisive(good, bad, same))


def _in_function(traces: TracePair, name: str, same: SameTest) -> Divergence:
    """Find the divergence in a device function, or in the program before it if the
    function differed from the start.
    """
    bad = traces.bad.functions[name]
    partner = _counterpart(name, bad[0], traces)
    if partner is None:
        return _in_program(traces, same, name)
    good = traces.good.functions[partner]
    changed = traces.find_decisive(good, bad, same)
    if changed is None:
        return Divergence(partner, name)
    before = chosen = None
    if not same(good[0], bad[0]):
        before = traces.find_lasting(
            _until(traces.good.program, good[0].index),
            _until(traces.bad.program, bad[0].index),
            same,
        )
    if traces.decides:
        chosen = traces.find_lasting(good, bad, _same_decisions)
    inside = [chosen] if before else [chosen, changed]
    candidates = [replace(each, function=(partner, name)) for each in inside if each]
    first, *others = [before, *candidates] if before else candidates
    different = (each for each in others if each.states != first.states)
    return Divergence(partner, name, first, next(different, None))


def _until(states: States, index: int) -> States:
    return [state for state in states if state.index <= index]


def _counterpart(name: str, initial: FunctionState, traces: TracePair) -> str | None:
    """Find a function in the good run: by name, by name without numbers, otherwise by
    similar operations.

    A lowering may add functions. Those that have the name of another function of the
    bad run are therefore left out.
    """
    general = _without_numbers(name)

    def similarity(candidate: str) -> tuple[bool, bool, float]:
        other = _without_numbers(candidate)
        ratio = SequenceMatcher(None, general, other, autojunk=False).ratio()
        first = traces.good.functions[candidate][0]
        overlap = _overlap(initial.fingerprint, first.fingerprint)
        return candidate == name, other == general, ratio + overlap

    free = [
        each
        for each in traces.good.device & traces.good.functions.keys()
        if each not in traces.bad.device or _without_numbers(each) == general
    ]
    return max(sorted(free), key=similarity, default=None)


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _overlap(left: Fingerprint, right: Fingerprint) -> float:
    """Return the share of operations that both have, 0 to 1."""
    here, there = Counter(left.operations), Counter(right.operations)
    return 2 * (here & there).total() / ((here + there).total() or 1)
