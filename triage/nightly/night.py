"""Run a nightly: probe everything on both compilers, compare, trace what regressed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from triage.bisect.releases import bisect_releases
from triage.bisect.result import Bisection, Kind
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.probe import Probe
from triage.nightly.compare import Change, Night, Pair, pair_up
from triage.probe.workbench import Job, Workbench
from triage.toolchains.shed import Place


def shard(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """The cases of shard `I/N`, I from 1; every case is in one of the N. BadInput for another spelling."""
    if text is None:
        return tuple(cases)
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, such as 1/4")
    return tuple(cases[int(number) - 1 :: int(count)])


def run_nightly(
    bench: Workbench, cases: Sequence[Case], toolchain: Place, baseline: Place, *, bisect: bool, fresh: bool = False
) -> Night:
    """Every case on both compilers; with `bisect` each regression is traced to the pair of releases that brought it."""
    started = time.monotonic()
    if toolchain.revision.name == baseline.revision.name:
        raise BadInput(f"toolchain and baseline are both {baseline.revision.name}; a comparison needs two")
    jobs = [Job(case, place, fresh) for place in (baseline, toolchain) for case in cases]
    probes = list(bench.probe_all(jobs, "nightly"))
    names = [case.name for case in cases]
    pairs = pair_up(probes, toolchain.revision.name, baseline.revision.name, names)
    pairs = tuple(_again(bench, pair, toolchain, baseline) if pair.slower else pair for pair in pairs)
    if bisect:
        pairs = tuple(
            replace(pair, bisections=trace(bench, pair, toolchain, baseline)) if pair.change is Change.REGRESSED else pair
            for pair in pairs
        )
    revisions = {probe.revision.name: probe.revision for probe in probes}
    return Night(
        toolchain=revisions.get(toolchain.revision.name, toolchain.revision),
        baseline=revisions.get(baseline.revision.name, baseline.revision),
        pairs=pairs,
        seconds=time.monotonic() - started,
        compiles=bench.compiles,
        cached=sum(probe.cached for probe in probes),
    )


def _again(bench: Workbench, pair: Pair, toolchain: Place, baseline: Place) -> Pair:
    """A pair that looks slower, measured once more: the smaller time of two counts, a busy machine only adds."""
    case = pair.probe.case
    again = {
        probe.revision.name: probe for probe in bench.probe_all([Job(case, at, fresh=True) for at in (baseline, toolchain)])
    }
    return replace(
        pair,
        baseline=_quicker(pair.baseline, again[baseline.revision.name]),
        probe=_quicker(pair.probe, again[toolchain.revision.name]),
    )


def _quicker(one: Probe, other: Probe) -> Probe:
    return replace(one, measured=min(one.measured, other.measured, key=lambda measured: measured.cpu_seconds))


def trace(bench: Workbench, pair: Pair, toolchain: Place, baseline: Place) -> tuple[Bisection, ...]:
    """Where a regression came from, between baseline and toolchain; and, if newer releases exist and the newest is
    free of it, which release took it away again. Empty when the two are not both releases of one index.
    """
    places = bench.shed.releases(toolchain.family)
    index = {place.revision.name: at for at, place in enumerate(places)}
    old, new = index.get(baseline.revision.name), index.get(toolchain.revision.name)
    if old is None or new is None or old >= new:
        return ()
    case = pair.probe.case
    found = [bisect_releases(bench, case, places, before=old, after=new)]
    newest = len(places) - 1
    if new < newest:
        fixed = bisect_releases(bench, case, places, kind=Kind.FIX, before=new, after=newest)
        if fixed.after is not None:  # still failing today is no answer of its own
            found.append(fixed)
    return tuple(found)
