"""What each function was after each pass, kept as digests: a run's dumps of any length in a few megabytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from triage.attribute.ir_reader import Dump, PassName
from triage.attribute.structure import Structure

_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class FunctionState:
    """A function, or all of them, after a pass changed its meaning. index, turn: of the dump it was seen in."""

    by: PassName
    structure: Structure
    index: int
    turn: int
    failed: bool = False


@dataclass(slots=True)
class Trace:
    """The states of one run. program: of all functions together, as long as it is printed whole; functions: of each by its
    symbol; device: those that were seen in an executable; last: the functions that were printed last; failed: the first
    dump of a pass that failed.
    """

    program: list[FunctionState] = field(default_factory=list)
    functions: dict[str, list[FunctionState]] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    last: tuple[str, ...] = ()
    failed: Dump | None = None
    dumps: int = 0

    @property
    def failing_functions(self) -> tuple[str, ...]:
        """The device functions that the failed pass ran on, or that were printed last before the run broke off; empty when
        it was the program's.
        """
        names = tuple(self.failed.module.functions) if self.failed else self.last
        return tuple(names) if names and all(name in self.device for name in names) else ()


class Tracer:
    """Takes a run's dumps in order and keeps what changed."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._now: dict[str, Structure] = {}

    def take(self, dump: Dump) -> None:
        """The next dump. One of some functions changes only those, one of the program replaces all."""
        trace, module = self.trace, dump.module
        trace.dumps += 1
        trace.device |= module.device
        if dump.failed and trace.failed is None:
            trace.failed = dump
        if not module.functions:
            return
        trace.last = tuple(module.functions)
        for name, structure in module.functions.items():
            _add(trace.functions.setdefault(name, []), FunctionState(dump.by, structure, dump.index, dump.turn, dump.failed))
        if all(name in trace.device for name in module.functions):
            return  # the program's own dumps tell what became of its executables
        self._now = {**({} if module.contains else self._now), **module.functions}
        _add(trace.program, FunctionState(dump.by, together(self._now.values()), dump.index, dump.turn, dump.failed))


def _add(states: list[FunctionState], state: FunctionState) -> None:
    if not states or states[-1].structure != state.structure:
        states.append(state)


def together(structures: Iterable[Structure]) -> Structure:
    """The meaning of several functions, whatever they are called and in whatever order they stand."""
    total, shared = 0, 0
    operations: Counter[str] = Counter()
    choices: set[tuple[str, str]] = set()
    for one in structures:
        total = (total + one.print_) % _MODULUS
        shared += one.shared
        operations.update(one.operations)
        choices |= one.choices
    return Structure(total, dict(operations), frozenset(choices), shared)
