"""Run a nightly: probe every case on both toolchains, compare, bisect and reduce regressions."""

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
    """Return the cases of shard `I/N`, I from 1; every case is in exactly one shard. Raises BadInput for other texts."""
    if text is None:
        return tuple(cases)
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, for example 1/4")
    return tuple(cases[int(number) - 1 :: int(count)])


def run_nightly(
    runner: ProbeRunner,
    cases: Sequence[Case],
    toolchain: ToolchainRef,
    baseline: ToolchainRef,
    *,
    bisect: bool,
    fresh: bool = False,
) -> Night:
    """Probe every case on both toolchains and compare; with `bisect`, find the releases that introduced each regression."""
    started = time.monotonic()
    if toolchain.revision.name == baseline.revision.name:
        raise BadInput(f"toolchain and baseline are both {baseline.revision.name}; name two different revisions")
    jobs = [ProbeJob(case, ref, fresh) for ref in (baseline, toolchain) for case in cases]
    probes = list(runner.probe_all(jobs, "nightly"))
    pairs = pair_up(probes, toolchain.revision.name, baseline.revision.name, [case.name for case in cases])
    pairs = tuple(_measure_again(runner, pair, toolchain, baseline) if pair.slower else pair for pair in pairs)
    if bisect:
        pairs = tuple(
            replace(pair, bisections=find_origin(runner, pair, toolchain, baseline))
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
        compiles=runner.compiles,
        cached=sum(probe.cached for probe in probes),
    )


def _measure_again(runner: ProbeRunner, pair: Pair, toolchain: ToolchainRef, baseline: ToolchainRef) -> Pair:
    """Compile a pair once more and use the faster of two runs, because a busy machine only adds time."""
    jobs = [ProbeJob(pair.probe.case, ref, fresh=True) for ref in (baseline, toolchain)]
    again = {probe.revision.name: probe for probe in runner.probe_all(jobs)}
    return replace(
        pair,
        baseline=_faster(pair.baseline, again[baseline.revision.name]),
        probe=_faster(pair.probe, again[toolchain.revision.name]),
    )


def _faster(first: Probe, second: Probe) -> Probe:
    return replace(first, measured=min(first.measured, second.measured, key=lambda measured: measured.cpu_seconds))


def find_origin(runner: ProbeRunner, pair: Pair, toolchain: ToolchainRef, baseline: ToolchainRef) -> tuple[Bisection, ...]:
    """Bisect a regression between baseline and toolchain, and its fix between toolchain and the newest release.

    The fix is left out when the newest release still fails. Nothing is bisected unless both are releases of one index.
    """
    from triage.bisect.plan import BisectRequest, bisect_between  # numpy is slow to import

    def no_progress(_: BisectSearch) -> None:
        """A nightly shows no progress of its bisects."""

    names = [ref.revision.name for ref in runner.registry.releases(toolchain.family)]
    old, new = baseline.revision.name, toolchain.revision.name
    if old not in names or new not in names or names.index(old) >= names.index(new):
        return ()
    request = BisectRequest(runner, pair.probe.case)
    bisections = [bisect_between(request, old, new, no_progress)]
    if new != names[-1]:
        fix = bisect_between(replace(request, kind=BisectKind.FIX), new, names[-1], no_progress)
        if fix.after is not None:
            bisections.append(fix)
    return tuple(bisections)


def with_examples(
    runner: ProbeRunner, night: Night, toolchain: ToolchainRef, baseline: ToolchainRef, write: Callable[[Reproducer], Path]
) -> Iterator[Night]:
    """Reduce the first case of each new failure; yield the night after each reduction.

    `write` writes a reproducer and returns its folder. The baseline must still compile each reduced program.
    """
    examples: dict[str, Example] = {}
    for pair in night.of(CaseChangeKind.REGRESSED):
        signature = pair.failure.signature if pair.failure else ""
        if signature not in examples:
            request = ReductionRequest(pair.probe.case, toolchain, baseline, same_signature)
            examples[signature] = _example(runner, request, signature, write)
            yield replace(night, examples=tuple(examples.values()))


def _example(runner: ProbeRunner, request: ReductionRequest, signature: str, write: Callable[[Reproducer], Path]) -> Example:
    try:
        result = reduce_case(runner, request)
        folder = None if isinstance(result, NotReproducible) else write(reproducer_of(runner, result, request.bad))
    except EnvironmentFailure as error:  # the comparison itself is complete
        return Example(signature, NotReproducible(request.case, str(error), cause=Cause.ENVIRONMENT))
    return Example(signature, result, folder)
