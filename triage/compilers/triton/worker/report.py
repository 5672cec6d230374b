"""What is told of a compile: the stages as they begin, what the last one made, and what can be measured of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Stage = Callable[..., Any]
# Not every release can make it: its linker is no part of the older wheels. The one before it is what all can be compared by.
_LINKED = "hsaco"


class Ended(BaseException):
    """The last stage that was asked for is done; raised before anything wants a GPU."""


class Unsupported(Exception):
    """What the recipe asks for is lacking in this release; the text names it."""


class Mistaken(Exception):
    """The recipe does not fit its kernel, whatever the release; its text says how."""


class KernelReport:
    """Watches the stages of one compile."""

    def __init__(self, phase: str | None) -> None:
        """`phase`: the stage to end after; None for the last one."""
        self._phase = phase
        self._product: Any = None
        self._metrics: dict[str, float] = {}

    def watch(self, stages: dict[str, Stage], last: str | None = None) -> None:
        """Have every stage announced, and the compile ended after the last: the phase, or else `last`."""
        names = list(stages)
        if self._phase is not None and self._phase not in names:
            raise Unsupported(f"stage {self._phase}; there is: {', '.join(names)}")
        end = self._phase or last or names[-1]
        if last in names and names.index(end) > names.index(last):
            raise Unsupported(f"linker for the stage {end}: the wheel does not bring it")
        for name in names:
            stages[name] = self._watched(name, stages[name], ends=name == end)

    def assembled(self, log: str) -> None:
        """What `ptxas -v` says of registers and spills."""
        self._find(log, "registers", r"Used (\d+) registers")
        self._find(log, "spill_bytes", r"(\d+) bytes spill stores")

    def write(self, output: Path) -> None:
        """What was made, and the metrics."""
        made = self._product
        output.write_bytes(made if isinstance(made, bytes) else str(made).encode())
        _tell({"metrics": self._metrics})

    def within(self, shared_limit: int | None) -> int:
        """The exit status: a launch would refuse what asks for more than the chip has, and no GPU is needed to know."""
        used = self._metrics.get("shared_bytes")
        if used is None or shared_limit is None or used <= shared_limit:
            return 0
        _tell({"stage": "llir"})  # which allotted it
        said = f"out of resource: shared memory, Required: {used:.0f}, Hardware limit: {shared_limit}."
        print(f"{said} Reducing block sizes or `num_stages` may help.", file=sys.stderr)
        return 1

    def _watched(self, name: str, make: Stage, *, ends: bool) -> Stage:
        def watched(source: Any, *metadata: dict[str, Any]) -> Any:
            _tell({"stage": name})
            made = make(source, *metadata)
            if name == "llir":
                shared = metadata[0].get("shared") if metadata else _shared_of(source)
                if shared is not None:
                    self._metrics["shared_bytes"] = int(shared)
            elif name in ("cubin", _LINKED):
                self._metrics["binary_bytes"] = len(made)
            elif name == "amdgcn":
                self._find(str(made), "registers", r"\.vgpr_count:\s+(\d+)")
                self._find(str(made), "spill_bytes", r"\.vgpr_spill_count:\s+(\d+)", unit=4)
            if name != _LINKED or self._phase == name:
                self._product = made
            if ends:
                raise Ended
            return made

        return watched

    def _find(self, text: str, metric: str, pattern: str, unit: int = 1) -> None:
        found = re.search(pattern, text)
        if found:
            self._metrics[metric] = int(found.group(1)) * unit


def _tell(what: dict[str, Any]) -> None:
    print("triage: " + json.dumps(what), flush=True)


def _shared_of(module: Any) -> int | None:
    """Of a module of 2.1 and 2.2, which keep it nowhere else while stages run."""
    from triton._C.libtriton.triton import get_shared_memory_size

    return int(get_shared_memory_size(module))
