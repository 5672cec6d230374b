"""Run times of remedies, one measured after the other, beside a compiler that needs none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.compilers.base import Runner
from triage.execution.runner import ProbeRunner
from triage.execution.timing import Timing, timed
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Compiled, Probe
from triage.remedy.result import Remedy
from triage.toolchains.registry import ToolchainRef


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
