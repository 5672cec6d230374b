"""What a remedy costs: the numbers of a compile that succeeded, and how they compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, log

from triage.model.outcome import Probe

# Name -> what it is called, and its unit; in the order they are looked at and shown.
NUMBERS: Mapping[str, tuple[str, str]] = {
    "run_ms": ("run time", " ms"),
    "dispatches": ("dispatches", ""),
    "shared_bytes": ("shared memory", " bytes"),
    "spill_bytes": ("spilled", " bytes"),
    "registers": ("registers", ""),
}
_CLEARLY = 1.25  # as a factor; what lies nearer to the smallest is as good


def numbers(probe: Probe) -> dict[str, float]:
    """What is known of a compile, in order."""
    metrics = probe.measured.metrics
    return {name: metrics[name] for name in NUMBERS if name in metrics}


def _compared(probe: Probe) -> dict[str, float]:
    """The same as they are compared: of a measured time the smallest, since a busy machine only adds."""
    metrics = probe.measured.metrics
    return {name: metrics.get(f"{name}_least", value) for name, value in numbers(probe).items()}


def least(probes: Iterable[Probe]) -> dict[str, float]:
    """The smallest of each number that any of them has."""
    found: dict[str, float] = {}
    for probe in probes:
        for name, value in _compared(probe).items():
            found[name] = min(value, found.get(name, value))
    return found


def steps_above(probe: Probe, smallest: Mapping[str, float]) -> tuple[float, ...]:
    """How far each number lies above the smallest, in whole steps of a quarter; what is not known lies furthest."""
    known = _compared(probe)
    return tuple(log((known[name] + 1) / (at + 1), _CLEARLY) // 1 if name in known else inf for name, at in smallest.items())


def differences(before: Probe, after: Probe) -> dict[str, tuple[float, float]]:
    """The numbers that both compiles have and that are not the same: how they were, and how they are."""
    old, new = numbers(before), numbers(after)
    return {name: (old[name], new[name]) for name in old if name in new and old[name] != new[name]}
