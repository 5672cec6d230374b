"""What a remedy costs: the numbers of a compile that succeeded, and how they compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, log

from triage.compilers.base import Runner
from triage.execution.metrics import Timing, timed
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Compiled, Probe
from triage.remedy.workflow import Remedy
from triage.toolchains.registry import ToolchainRef

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


def with_run_times(
    bench: ProbeRunner, case: Case, bad: ToolchainRef, others: Sequence[ToolchainRef], remedies: Sequence[Remedy]
) -> tuple[list[Remedy], list[str]]:
    """The remedies with the times they run where the case fails, and the case alone on the first of the others that compiles
    it; and why there is no time of some.
    """
    runner = bench.prober.runner_of(case.compiler)
    if runner is None or not runner.runs(case):
        return list(remedies), ["run times are taken of programs for this machine's processor alone"]
    notes: list[str] = []
    done = [replace(remedy, probe=_measured(bench, remedy.probe, bad, runner, notes)) for remedy in remedies]
    plain = {check.plain.revision.name: check.plain for remedy in done[:1] for check in remedy.checks}
    place = next((one for one in others if _compiles(plain.get(one.revision.name))), None)
    if place is not None:
        name = place.revision.name
        known = _measured(bench, plain[name], place, runner, notes)
        done = [
            replace(
                remedy,
                checks=tuple(replace(one, plain=known) if one.plain.revision.name == name else one for one in remedy.checks),
            )
            for remedy in done
        ]
    return done, list(dict.fromkeys(notes))


def _compiles(probe: Probe | None) -> bool:
    return probe is not None and isinstance(probe.outcome, Compiled)


def _measured(bench: ProbeRunner, probe: Probe, place: ToolchainRef, runner: Runner, notes: list[str]) -> Probe:
    try:
        told = timed(bench, probe.case, place, runner)
    except EnvironmentFailure as error:
        told = str(error)
    if isinstance(told, Timing):
        return replace(probe, measured=replace(probe.measured, metrics={**probe.measured.metrics, **told.metrics()}))
    notes.append(f"no run time of {probe.case.name} on {place.revision.name}: {told}")
    return probe
