"""Look for a failure that a program lost: the newest release may make another program
of a source than an old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import OWN, Case, InputKind
from triage.model.outcome import Failed, Probe
from triage.model.probe_result import ProbeResult
from triage.toolchains.registry import ToolchainRef


def newest_that_fails(
    engine: Engine, case: Case, refs: Sequence[ToolchainRef], what: str
) -> Probe | None:
    """Return the probe of the newest of several toolchains, oldest first, that fails;
    also if it alone does. what: progress.
    """
    for end in range(len(refs), 0, -engine.jobs):
        batch = [ProbeJob(case, ref) for ref in refs[max(0, end - engine.jobs) : end]]
        probes = {probe.revision.name: probe for probe in engine.probe_all(batch, what)}
        for job in reversed(batch):
            probe = probes[job.ref.revision.name]
            if isinstance(probe.outcome, Failed) and not probe.outcome.flaky:
                return probe
    return None


def case_with_own_program(
    engine: Engine,
    case: Case,
    refs: Sequence[ToolchainRef],
    results: Iterable[ProbeResult],
) -> Case | None:
    """Return the case with the program that a release itself makes of its source and
    fails on; None if no release does.

    None also unless the case passed on all of them: the program that the newest release
    makes may lack what fails.
    """
    if not all(result.passed for result in results):
        return None
    is_made = case.input.kind is InputKind.GENERATOR and case.input.maker is None
    if not (is_made and engine.compilers[case.compiler].generator):
        return None
    own = replace(case, input=replace(case.input, maker=OWN))
    probe = newest_that_fails(engine, own, refs, f"{case.name}, made by each release")
    if probe is None:
        return None
    maker, source = probe.revision.name, case.input.path.name
    engine.progress.note(
        f"{case.name} passes with the program that the newest release makes of "
        f"{source}, not with {maker}'s own"
    )
    return replace(
        case,
        name=f"{case.name} made by {maker}",
        input=replace(case.input, maker=maker),
    )
