"""Report the stages and the metrics of a compile, and end it after the last stage that
is wanted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Stage = Callable[..., Any]


class Ended(BaseException):
    """The last stage that is wanted is done. It is raised before Triton needs a GPU."""


class Unsupported(Exception):
    """The release lacks a feature that the recipe needs; the message names it."""


class Mistaken(Exception):
    """The recipe does not fit its kernel; the message says where."""


class KernelReport:
    """Reports the stages of one compile."""

    def __init__(self, phase: str | None) -> None:
        """Create a report that ends the compile after the stage `phase` (default: the
        last one).
        """
        self._phase = phase
        self._product: Any = None
        self._metrics: dict[str, float] = {}

    def watch(self, stages: dict[str, Stage], last: str | None = None) -> None:
        """Replace stages by ones that report themselves. The one for the phase ends the
        compile; without a phase, the stage `last` does (default: the last one).

        Raises Unsupported if the release does not have the phase.
        """
        names = list(stages)
        if last in names:
            del names[names.index(last) + 1 :]
        end = self._phase or names[-1]
        if end not in names:
            raise Unsupported(f"stage {end}; there is: {', '.join(names)}")
        for name in names:
            stages[name] = self._watched(name, stages[name], ends=name == end)

    def read_ptxas_log(self, log: str) -> None:
        """Read registers and spills from the output of `ptxas -v`."""
        self._find(log, "registers", r"Used (\d+) registers")
        self._find(log, "spill_bytes", r"(\d+) bytes spill stores")

    def write(self, output: Path) -> None:
        """Write the product of the last stage to a file, and print the metrics."""
        product = self._product
        if not isinstance(product, bytes):
            product = str(product).encode()
        output.write_bytes(product)
        print_report({"metrics": self._metrics})

    def check_fits_chip(self, shared_limit: int | None) -> bool:
        """Return whether the chip has the shared memory that a launch of the kernel
        needs, as far as both are known. Print an error if it does not.
        """
        used = self._metrics.get("shared_bytes")
        if used is None or shared_limit is None or used <= shared_limit:
            return True
        print_report({"stage": "llir"})  # the stage that allocates shared memory
        message = (
            f"out of resource: shared memory, Required: {used:.0f}, Hardware limit: "
            f"{shared_limit}."
        )
        print(
            f"{message} Reducing block sizes or `num_stages` may help.", file=sys.stderr
        )
        return False

    def _watched(self, name: str, make: Stage, *, ends: bool) -> Stage:
        def watched(source: Any, metadata: dict[str, Any]) -> Any:
            print_report({"stage": name})
            product = make(source, metadata)
            self._measure(name, product, metadata)
            self._product = product
            if ends:
                raise Ended
            return product

        return watched

    def _measure(self, stage: str, product: Any, metadata: dict[str, Any]) -> None:
        """Read the metrics that the product of a stage shows."""
        if stage == "llir":
            shared = metadata.get("shared")
            if shared is not None:
                self._metrics["shared_bytes"] = int(shared)
        elif stage == "amdgcn":
            text = str(product)
            self._find(text, "registers", r"\.vgpr_count:\s+(\d+)")
            self._find(text, "spill_bytes", r"\.vgpr_spill_count:\s+(\d+)", unit=4)

    def _find(self, text: str, metric: str, pattern: str, unit: int = 1) -> None:
        match = re.search(pattern, text)
        if match:
            self._metrics[metric] = int(match.group(1)) * unit


def print_report(report: dict[str, Any]) -> None:
    """Print a line that the program above reads."""
    print("triage: " + json.dumps(report), flush=True)
