"""IREE's knowledge about remedies: which options are tried, and how devices that a
program names are declared.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from triage.compilers.iree.devices import (
    BACKENDS,
    DEVICE,
    declaring_options,
    device_flags,
    device_order,
    devices_declared_by,
    devices_in,
)
from triage.compilers.parts import RemedyHints
from triage.model.case import Case


class IreeRemedies(RemedyHints):
    """Tells the search for remedies what it must know of IREE: its options, and how a
    program names devices.
    """

    def devices_named(self, program: Path) -> frozenset[str]:
        with program.open(encoding="utf-8", errors="replace") as lines:
            return frozenset(name for line in lines for name in devices_in(line))

    def declaring_options(
        self, case: Case, devices: Collection[str]
    ) -> tuple[str, ...] | None:
        options = [flag.text for flag in case.flags]
        if not any(text.startswith(DEVICE) for text in options):
            if case.target.backend not in BACKENDS:
                return None
            if case.target.devices:
                options += device_flags(case.target)
        flags = [text for text in options if text.startswith(DEVICE)]
        declared = devices_declared_by(flags)
        missing = sorted(set(devices) - declared.devices.keys(), key=device_order)
        if not missing or declared.problem:
            return None
        wanted = [*declared.devices, *missing]
        return declaring_options(wanted, case.target.backend, options)
