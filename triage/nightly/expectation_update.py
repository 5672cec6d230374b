"""Match the lists of known failures to the results of a toolchain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Failed, NoAnswer, Probe
from triage.recipes.expectations import (
    ExpectationUpdate,
    LeftCase,
    UpdatedFile,
)
from triage.toolchains.home import save_file
from triage.toolchains.registry import ToolchainRef

ListUpdate = Callable[[Path, Sequence[Case], Sequence[Probe]], UpdatedFile]
"""Updates the list for the cases of a file to what was seen of some of them."""


def update_expectations(
    engine: Engine, cases: Sequence[Case], ref: ToolchainRef, update: ListUpdate
) -> ExpectationUpdate:
    """Probe the cases, and write the files of known failures that change."""
    jobs = [ProbeJob(case, ref) for case in cases]
    done = {probe.case.name: probe for probe in engine.probe_all(jobs)}
    probes = [done[case.name] for case in cases]
    left: list[LeftCase] = []
    seen = defaultdict[Path, list[Probe]](list)
    for probe in probes:
        reason = _why_left(probe)
        if reason:
            left.append(LeftCase(probe.case.name, reason))
        else:
            seen[probe.case.source].append(probe)
    files = []
    for source, of_source in seen.items():
        its_cases = [case for case in cases if case.source == source]
        files.append(update(source, its_cases, of_source))
    for file in files:
        if file.changes and file.paste is None:
            save_file(file.path, file.text, f"write {file.path}")
    return ExpectationUpdate(engine.registry.revision(ref), files, left)


def _why_left(probe: Probe) -> str | None:
    """Return why a result changes no list; None if it does."""
    match probe.outcome:
        case NoAnswer(reason=reason):
            return f"untestable: {reason}"
        case Failed(failure, flaky=True):
            return f"flaky: {failure.failure_class}"
    return None
