"""A case compiled beside its neighbours on one toolchain, and what its failure depends on."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.case import Case
from triage.model.outcome import Failed
from triage.probe.judge import Match, any_failure, same_class
from triage.probe.workbench import Job, Workbench
from triage.remedy.dependence import Variants, depends_on, seen
from triage.toolchains.shed import Place


def compare_variants(bench: Workbench, cases: Sequence[Case], place: Place, about: Case | None = None) -> Variants:
    """What the failure of `about`, or of the first case that fails, depends on. A failure is the same when its class is."""
    order = {one.name: number for number, one in enumerate(cases)}
    found = bench.probe_all([Job(one, place) for one in cases], "variants")
    probes = tuple(sorted(found, key=lambda probe: order[probe.case.name]))
    candidates = [probe for probe in probes if about is None or probe.case.name == about.name]
    failure = next((probe.outcome.failure for probe in candidates if isinstance(probe.outcome, Failed)), None)
    match: Match = same_class(failure) if failure else any_failure
    matters, sentence = depends_on([(dict(probe.case.matrix), seen(probe, match)) for probe in probes])
    keys = tuple(dict.fromkeys(key for one in cases for key, _ in one.matrix))
    if failure is None:
        matters, sentence = (), f"{about.name if about else 'No case'} {'does not fail' if about else 'fails'}."
    return Variants(probes, failure, keys, matters, sentence)
