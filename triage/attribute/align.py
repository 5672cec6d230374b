"""Record the states of each function during a run, align the passes of two runs, and
find where their IR diverges.
"""

from __future__ import annotations

import math
import re
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
    def fingerprints(self) -> tuple[Fingerprint, Fingerprint]:
        good, bad = (
            state.fingerprint if state else Fingerprint() for state in self.states_after
        )
        return good, bad

    @property
    def choices(self) -> dict[str, int]:
        """The choices that differ after it, each once; none if it is `same`."""
        good, bad = self.fingerprints
        differences = () if self.same else good.choice_differences(bad)
        return {name: 1 for name, *_ in differences}

    @property
    def differences(self) -> dict[str, int]:
        """By how much the counts of operations differ after it, and `choices`."""
        good, bad = self.fingerprints
        counts = {} if self.same else good.count_differences(bad)
        return {name: abs(one - two) for name, (one, two) in counts.items()} | (
            self.choices
        )

    @property
    def dump_index(self) -> int:
        """The dump at which the bad run made the difference, or that it had reached
        when the good one did.
        """
        state = self.states_after[1] or self.good
        if state:
            return state.index
        return 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The passes at which two runs diverge, in a device function or in the program."""

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
    failure_text: str = ""
    """May name a function."""
    kernel: str | None = None
    """The beginning of the names of the functions to follow."""
    decides: bool = True
    """Whether choices are the compiler's decisions, and not all attributes."""

    def aligned(self, good: States, bad: States, same: SameTest) -> list[AlignedPass]:
        """Align two sequences of states up to the failing pass, or to the end of the
        shorter run.
        """
        good, bad = (
            [state for state in states if not state.failed] for states in (good, bad)
        )
        passes = list(align(good, bad, self.renamed, same))
        end = len(passes)
        while end and self._is_beyond_early_end(passes[end - 1]):
            end -= 1
        if self.bad.failed:
            failing = _class_of(self.bad.failed.after)
            for number in range(end, len(passes)):
                if _current_name(passes[number].after, self.renamed) == failing:
                    return passes[:number]
        return passes[:end]

    def _is_beyond_early_end(self, aligned: AlignedPass) -> bool:
        """Return whether only one run has a pass, and the other one ended early."""
        return (aligned.bad is None and self.bad.ended_early) or (
            aligned.good is None and self.good.ended_early
        )

    def find_lasting(
        self, good: States, bad: States, same: SameTest
    ) -> AlignedPass | None:
        """Find the first pass after which two sequences of states never become equal
        again.
        """
        passes = self.aligned(good, bad, same)
        if same is _same_operations:
            return _origin(passes)
        found = None
        for aligned in passes:
            if aligned.same:
                found = None
            elif found is None:
                found = aligned
        return found

    def find_decisive(
        self, good: States, bad: States, same: SameTest
    ) -> AlignedPass | None:
        """Find where two sequences of states diverge. If a pass of one run only changes
        types that never become equal again, it is the answer.
        """
        found = self.find_lasting(good, bad, same)
        typed = self.find_lasting(good, bad, _same_ir) if found else None
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
        found = []
        if not self.good.ended_early:
            found += [name for key, name in bad.items() if key not in good]
        if not self.bad.ended_early:
            found += [name for key, name in good.items() if key not in bad]
        return tuple(found)


def _origin(passes: Sequence[AlignedPass]) -> AlignedPass | None:
    """Find the pass that brought the oldest of the differences that are left after the
    last pass.

    A difference that a pass lowers to other operations goes on in these, and one that
    comes while choices differ comes from these. One that is undone before the end, such
    as other nesting of the same loops, does not count, although others may have come in
    the meantime.
    """
    lasting = {*passes[-1].differences} if passes else set[str]()
    number = len(passes) - 1
    while number > 0 and lasting:
        before, after = (each.differences for each in passes[number - 1 : number + 1])
        older = lasting & before.keys()
        if older != lasting:  # some came with this pass
            older |= passes[number - 1].choices.keys()
            older |= {
                name for name, count in before.items() if after.get(name, 0) < count
            }
        if not older:
            break
        lasting, number = older, number - 1
    return passes[number] if lasting else None


def align(
    good: States, bad: States, renamed: Mapping[str, str], same: SameTest
) -> Iterator[AlignedPass]:
    """Yield the passes of both runs in order, matched by name.

    In a stretch of unmatched passes, a state counts as equal if the other run reaches
    it within the stretch too.
    """

    def is_same(left: FunctionState | None, right: FunctionState | None) -> bool:
        if left is None or right is None:
            return left is right
        return same(left, right)

    good_names, bad_names = (
        [_current_name(state.after, renamed) for state in run] for run in (good, bad)
    )
    # the states of both runs before the next pass
    left: FunctionState | None = None
    right: FunctionState | None = None
    matcher = SequenceMatcher(None, good_names, bad_names, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for new_left, new_right in zip(good[i:i_end], bad[j:j_end], strict=True):
                same_after = is_same(new_left, new_right)
                yield AlignedPass(new_left, new_right, (left, right), same_after)
                left, right = new_left, new_right
            continue
        lefts, rights = (left, *good[i:i_end]), (right, *bad[j:j_end])
        for new_right in bad[j:j_end]:
            same_after = any(is_same(each, new_right) for each in lefts)
            yield AlignedPass(None, new_right, (left, right), same_after)
            right = new_right
        for number in range(i, i_end):
            new_left = good[number]
            if number == i_end - 1:
                same_after = is_same(new_left, right)
            else:
                same_after = any(is_same(new_left, each) for each in rights)
            yield AlignedPass(new_left, None, (left, right), same_after)
            left = new_left


def find_divergence(traces: TracePair) -> Divergence:
    """Find where two runs diverge in the failing function; if that is unknown, the
    earliest divergence of all.

    A difference in operations or choices that persists weighs more than one in types.
    """
    found = _find_divergence(traces, _same_operations)
    return found if found.persistent else _find_divergence(traces, _same_ir)


def _find_divergence(traces: TracePair, same: SameTest) -> Divergence:
    failing = _failing_functions(traces)
    if failing:
        found = [_in_function(traces, name, same) for name in failing]
        return max(found, key=lambda each: each.persistent is not None)
    program = _in_program(traces, same)
    if traces.bad.failed is not None:  # the failing pass ran on the program
        return program
    device = sorted(traces.bad.device)
    found = [program, *(_in_function(traces, name, same) for name in device)]
    return min(found, key=_order)


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
    chosen = None
    if traces.decides:
        chosen = traces.find_lasting(good, bad, _same_decisions)
    began_same = same(good[0], bad[0])
    choice = chosen
    if choice is None and changed.differences == changed.choices:
        choice = changed
    if choice and began_same:
        before = _before_function(traces, good, bad, _same_ir, choice)
    else:
        before = _before_function(traces, good, bad, same, changed)
    candidates: list[AlignedPass | None]
    if before:
        candidates = [chosen or (changed if began_same else None)]
    elif chosen is None or not _same_operands(*chosen.states_after):
        candidates = [changed, chosen]
    else:
        candidates = [chosen, changed]
    own = [replace(each, functions=(partner, name)) for each in candidates if each]
    first, *others = [before, *own] if before else own
    different = (each for each in others if each.states_after != first.states_after)
    return Divergence(partner, name, first, next(different, None))


def _before_function(
    traces: TracePair, good: States, bad: States, same: SameTest, found: AlignedPass
) -> AlignedPass | None:
    """Find the divergence in the program before a function, if the function differed
    from the start up to the pass that was found in it.
    """
    for aligned in traces.aligned(good, bad, same):
        if aligned.states_after == found.states_after:
            break
        if aligned.same:
            return None
    return traces.find_lasting(
        _until(traces.good.program, good[0].index),
        _until(traces.bad.program, bad[0].index),
        same,
    )


def _until(states: States, index: int) -> list[FunctionState]:
    return [state for state in states if state.index <= index]


def _same_operands(good: FunctionState | None, bad: FunctionState | None) -> bool:
    """Return whether choices were made for the same operations of the same types, apart
    from those for the function.
    """
    ours, theirs = (
        {key for key, _ in state.fingerprint.decided if " () -> () " not in key}
        if state
        else set[str]()
        for state in (good, bad)
    )
    return not ours or not theirs or not ours.isdisjoint(theirs)


def _counterpart(name: str, initial: FunctionState, traces: TracePair) -> str | None:
    """Find a function in the good run: by name, by name without numbers, otherwise by
    similar operations.

    A lowering may add functions. Those that have the name of another function of the
    bad run are therefore left out.
    """

    def similarity(candidate: str) -> tuple[bool, bool, float]:
        general = _without_numbers(candidate)
        ratio = SequenceMatcher(None, _without_numbers(name), general, autojunk=False)
        first = traces.good.functions[candidate][0]
        overlap = _overlap(initial.fingerprint, first.fingerprint)
        is_alike = general == _without_numbers(name)
        return candidate == name, is_alike, ratio.ratio() + overlap

    known = [each for each in traces.good.device if traces.good.functions.get(each)]
    free = [
        each
        for each in known
        if each not in traces.bad.device
        or _without_numbers(each) == _without_numbers(name)
    ]
    return max(sorted(free), key=similarity, default=None)


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _overlap(left: Fingerprint, right: Fingerprint) -> float:
    """Return the share of operations that both have, 0 to 1."""
    here, there = left.operations, right.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
