"""The report of a compile: each stage as it begins, the product of the last one, and
metrics.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Stage = Callable[..., Any]
# Older wheels lack the linker for this stage, so releases are compared by the product
# of the stage before it.
_LINKED = "hsaco"


class Ended(BaseException):
    """The last requested stage is done; raised before Triton needs a GPU."""


class Unsupported(Exception):
    """The release lacks a feature that the recipe needs; the message names it."""


class Mistaken(Exception):
    """The recipe does not fit its kernel on any release; the message names the
    mismatch.
    """


class KernelReport:
    """Watches the stages of one compile."""

    def __init__(self, phase: str | None) -> None:
        """`phase`: the stage to end after (default: the last one)."""
        self._phase = phase
        self._product: Any = None
        self._metrics: dict[str, float] = {}

    def watch(self, stages: dict[str, Stage], last: str | None = None) -> None:
        """Announce every stage, and end the compile after the phase, or after `last`
        when there is no phase.
        """
        names = list(stages)
        if self._phase is not None and self._phase not in names:
            raise Unsupported(f"stage {self._phase}; there is: {', '.join(names)}")
        end = self._phase or last or names[-1]
        if last in names and names.index(end) > names.index(last):
            raise Unsupported(
                f"linker for the stage {end}: the wheel does not bring it"
            )
        for name in names:
            stages[name] = self._watched(name, stages[name], ends=name == end)

    def assembled(self, log: str) -> None:
        """Read registers and spills from the output of `ptxas -v`."""
        self._find(log, "registers", r"Used (\d+) registers")
        self._find(log, "spill_bytes", r"(\d+) bytes spill stores")

    def write(self, output: Path) -> None:
        """Write the product to a file and print the metrics."""
        product = self._product
        output.write_bytes(
            product if isinstance(product, bytes) else str(product).encode()
        )
        print_report({"metrics": self._metrics})

    def within(self, shared_limit: int | None) -> int:
        """Return the exit status: 1 when the kernel needs more shared memory than the
        chip has, so that a launch would fail.
        """
        used = self._metrics.get("shared_bytes")
        if used is None or shared_limit is None or used <= shared_limit:
            return 0
        print_report({"stage": "llir"})  # the stage that allocates shared memory
        message = (
            f"out of resource: shared memory, Required: {used:.0f}, Hardware limit: "
            f"{shared_limit}."
        )
        print(
            f"{message} Reducing block sizes or `num_stages` may help.", file=sys.stderr
        )
        return 1

    def _watched(self, name: str, make: Stage, *, ends: bool) -> Stage:
        def watched(source: Any, *metadata: dict[str, Any]) -> Any:
            print_report({"stage": name})
            product = make(source, *metadata)
            if name == "llir":
                if metadata:
                    shared = metadata[0].get("shared")
                else:
                    shared = _shared_of(source)
                if shared is not None:
                    self._metrics["shared_bytes"] = int(shared)
            elif name in ("cubin", _LINKED):
                self._metrics["binary_bytes"] = len(product)
            elif name == "amdgcn":
                self._find(str(product), "registers", r"\.vgpr_count:\s+(\d+)")
                self._find(
                    str(product), "spill_bytes", r"\.vgpr_spill_count:\s+(\d+)", unit=4
                )
            if name != _LINKED or self._phase == name:
                self._product = product
            if ends:
                raise Ended
            return product

        return watched

    def _find(self, text: str, metric: str, pattern: str, unit: int = 1) -> None:
        match = re.search(pattern, text)
        if match:
            self._metrics[metric] = int(match.group(1)) * unit


def print_report(report: dict[str, Any]) -> None:
    """Print a line that the program above reads."""
    print("triage: " + json.dumps(report), flush=True)


def _shared_of(module: Any) -> int | None:
    """Return the shared memory of a module of 2.1 and 2.2, which store it nowhere else
    while stages run.
    """
    from triton._C.libtriton.triton import get_shared_memory_size

    return int(get_shared_memory_size(module))
