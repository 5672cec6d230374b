"""The states of each function during a run, as fingerprints: dumps of any length take a few megabytes."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        functions: Each function by its symbol.
        device: The functions that were inside an executable.
        last: The functions of the last dump.
        failed: The first dump of a pass that failed.
        dumps: Number of dumps.
    """

    program: list[FunctionState] = field(default_factory=list)
    functions: dict[str, list[FunctionState]] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    last: tuple[str, ...] = ()
    failed: IrDump | None = None
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
