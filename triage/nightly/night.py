"""Run a nightly: probe everything on both compilers, compare, trace what regressed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.bisect.result import Bisection, BisectKind
from triage.execution.judge import same_signature
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Probe
from triage.nightly.compare import CaseChangeKind, Example, Night, Pair, pair_up
from triage.reduce.reproducer import Reproducer, reproducer_of
from triage.reduce.state import NotReproducible
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:
    from triage.bisect.search import BisectSearch


def shard(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """The cases of shard `I/N`, I from 1; every case is in one of the N. BadInput for another spelling."""
    if text is None:
        return tuple(cases)
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, such as 1/4")
    return tuple(cases[int(number) - 1 :: int(count)])


def run_nightly(
    bench: ProbeRunner,
    cases: Sequence[Case],
    toolchain: ToolchainRef,
    baseline: ToolchainRef,
    *,
    bisect: bool,
    fresh: bool = False,
) -> Night:
    """Every case on both compilers; with `bisect` each regression is traced to the pair of releases that brought it."""
    started = time.monotonic()
    if toolchain.revision.name == baseline.revision.name:
        raise BadInput(f"toolchain and baseline are both {baseline.revision.name}; a comparison needs two")
    jobs = [ProbeJob(case, place, fresh) for place in (baseline, toolchain) for case in cases]
    probes = list(bench.probe_all(jobs, "nightly"))
    names = [case.name for case in cases]
    pairs = pair_up(probes, toolchain.revision.name, baseline.revision.name, names)
    pairs = tuple(_again(bench, pair, toolchain, baseline) if pair.slower else pair for pair in pairs)
    if bisect:
        pairs = tuple(
            replace(pair, bisections=trace(bench, pair, toolchain, baseline))
            if pair.change is CaseChangeKind.REGRESSED
            else pair
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


def _again(bench: ProbeRunner, pair: Pair, toolchain: ToolchainRef, baseline: ToolchainRef) -> Pair:
    """A pair that looks slower, measured once more: the smaller time of two counts, a busy machine only adds."""
    case = pair.probe.case
    again = {
        probe.revision.name: probe
        for probe in bench.probe_all([ProbeJob(case, at, fresh=True) for at in (baseline, toolchain)])
    }
    return replace(
        pair,
        baseline=_quicker(pair.baseline, again[baseline.revision.name]),
        probe=_quicker(pair.probe, again[toolchain.revision.name]),
    )


def _quicker(one: Probe, other: Probe) -> Probe:
    return replace(one, measured=min(one.measured, other.measured, key=lambda measured: measured.cpu_seconds))


def trace(bench: ProbeRunner, pair: Pair, toolchain: ToolchainRef, baseline: ToolchainRef) -> tuple[Bisection, ...]:
    """Where a regression came from, between baseline and toolchain; and, if newer releases exist and the newest is
    free of it, which release took it away again. Empty when the two are not both releases of one index.
    """
    places = bench.registry.releases(toolchain.family)
    index = {place.revision.name: at for at, place in enumerate(places)}
    old, new = index.get(baseline.revision.name), index.get(toolchain.revision.name)
    if old is None or new is None or old >= new:
        return ()
    case = pair.probe.case
    from triage.bisect.plan import BisectRequest, bisect_between  # numpy is slow to import

    def quiet(_: BisectSearch) -> None:
        """A nightly shows no progress of its bisects."""

    request = BisectRequest(bench, case)
    found = [bisect_between(request, baseline.revision.name, toolchain.revision.name, quiet)]
    newest = len(places) - 1
    if new < newest:
        fixing = replace(request, kind=BisectKind.FIX)
        fixed = bisect_between(fixing, toolchain.revision.name, places[newest].revision.name, quiet)
        if fixed.after is not None:  # still failing today is no answer of its own
            found.append(fixed)
    return tuple(found)


def with_examples(
    bench: ProbeRunner, night: Night, toolchain: ToolchainRef, baseline: ToolchainRef, write: Callable[[Reproducer], Path]
) -> Iterator[Night]:
    """The night with one more example each time, until every signature that regressed has one: its first case is reduced,
    with the baseline as the toolchain that has to go on compiling it. Stopped in between, what was written stays.
    """
    done: dict[str, Example] = {}
    for pair in night.of(CaseChangeKind.REGRESSED):
        signature = pair.failure.signature if pair.failure else ""
        if signature not in done:
            done[signature] = _example(bench, pair, signature, (toolchain, baseline), write)
            yield replace(night, examples=tuple(done.values()))


def _example(
    bench: ProbeRunner,
    pair: Pair,
    signature: str,
    places: tuple[ToolchainRef, ToolchainRef],
    write: Callable[[Reproducer], Path],
) -> Example:
    bad, good = places
    try:
        found = reduce_case(bench, ReductionRequest(pair.probe.case, bad, good, same_signature))
        folder = None if isinstance(found, NotReproducible) else write(reproducer_of(bench, found, bad))
    except EnvironmentFailure as error:  # the night's result stands all the same
        return Example(signature, NotReproducible(pair.probe.case, str(error), cause=Cause.ENVIRONMENT))
    return Example(signature, found, folder)
