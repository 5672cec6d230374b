"""The answer of a search, from what was probed."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from triage.bisect.belief import FailureSides, Floats
from triage.bisect.result import (
    Answer,
    Bisection,
    BisectKind,
    LoggedProbe,
    Side,
    Suspect,
    hint_if_unexpected,
)
from triage.execution.judge import result_of
from triage.model.outcome import Cause, NoAnswer
from triage.model.probe_result import ProbeResult

if TYPE_CHECKING:
    from triage.bisect.search import BisectSearch

_NOTED = 20  # suspects with details


def answer(search: BisectSearch) -> Bisection:
    """Report what the search knows so far."""
    request, belief = search.request, search.belief
    inconclusive = _answer_without_suspects(search)
    if belief is None or search.failure is None or search.stopped:
        return inconclusive
    chances, confirmed = belief.probabilities, belief.is_confirmed(request.confidence)
    hint = inconclusive.hint
    sides = FailureSides(belief, search.failing_side)
    early = sides.early_failure()
    if search.is_resolved and early is not None and sides.failure_precedes_pair():
        if search.failing_side is Side.NEW:
            low, high = (0, early)
        else:
            low, high = (early, search.last)
        chances, confirmed = belief.prior, False
        indices = list(range(low + 1, high + 1))
        failures, runs = sides.failures_at(early)
        hint = (
            f"{search.name(early)} shows the same failure in {failures} of {runs} "
            f"runs: {search.name(belief.leading_block.last)} only changed how often it "
            "occurs."
        )
    elif search.is_resolved:
        (low, _), (high, _) = belief.pair
        flaky = sides.flaky_before_gap()
        if flaky is not None:
            confirmed = False
            failures, runs = sides.failures_at(flaky)
            hint = (
                f"{search.name(flaky)} shows the same failure in {failures} of {runs} "
                f"runs, and no revision between {search.name(low)} and "
                f"{search.name(high)} can be tested: the failure may be older."
            )
        indices = [index for index in range(low + 1, high + 1) if chances[index] > 0]
    else:
        low, high = belief.bounds
        indices = belief.credible_suspects(request.confidence)
    kind = request.kind
    before = search.range.candidates[low].revision
    after = search.range.candidates[high].revision
    undone = all(search.range.candidates[index].is_undone for index in indices)
    if undone:  # what the new end lacks: it changed the state the other way round
        if kind is BisectKind.REGRESSION:
            kind = BisectKind.FIX
        else:
            kind = BisectKind.REGRESSION
        before, after = after, before
    return replace(
        inconclusive,
        hint=hint,
        kind=kind,
        status=Answer.CULPRIT if confirmed and len(indices) == 1 else Answer.SUSPECTS,
        before=before,
        after=after,
        undone=undone,
        suspects=_suspects(search, indices, chances),
        confirmed=confirmed,
        evidence=search.evidence.summary if search.evidence else None,
        branches=search.range.branches,
    )


def _answer_without_suspects(search: BisectSearch) -> Bisection:
    """Return an inconclusive answer with the effort, the probes and their failures."""
    request, effort = search.request, search.effort
    untestable, others = _results_without_verdict(search)
    hint = None
    if search.failure:
        hint = hint_if_unexpected(request.case, search.failure)
    return Bisection(
        case=request.case.name,
        kind=request.kind,
        status=Answer.INCONCLUSIVE,
        failure=search.failure,
        probes=effort.probes,
        rounds=effort.rounds,
        cached=effort.cached,
        halving_probes=math.ceil(math.log2(search.last)) if search.last > 1 else 0,
        obtained=Counter(search.range.obtained.values()),
        seconds=round(time.monotonic() - effort.started, 1),
        log=tuple(probe_log(search)),
        untestable=tuple(untestable),
        other_failures=tuple(others),
        unanswered=search.stopped,
        hint=hint,
        fixed=search.fixed,
    )


def probe_log(search: BisectSearch) -> Iterator[LoggedProbe]:
    """Yield the probes so far, in order, with their verdicts about the failure."""
    for candidate, probe in search.effort.log:
        failure = probe.outcome.failure
        yield LoggedProbe(
            candidate.revision.name,
            candidate.revision.commit,
            search.judge(probe.outcome, search.match),
            failure.signature if failure else None,
            probe.outcome.reason,
            probe.cached,
            round(probe.measured.seconds, 3),
            candidate.source,
        )


def _results_without_verdict(
    search: BisectSearch,
) -> tuple[list[ProbeResult], list[ProbeResult]]:
    """Return two lists: the results of candidates that cannot be tested, and of those
    that fail in another way.
    """
    untestable, others = [], []
    for candidate in search.range.candidates:
        if not candidate.probes:
            continue
        result = result_of(candidate.probes[-1])
        if result.untestable:
            untestable.append(result)
        elif result.failure and not search.match(result.failure):
            others.append(result)
    if search.belief is not None:
        low, high = search.belief.bounds
        for one in search.range.candidates[low + 1 : high]:
            if one.untestable is not None:
                why = NoAnswer(Cause.TOOLCHAIN, one.untestable)
                untestable.append(result_of(search.without_run(one, why)))
        untestable += search.range.left_out
    return untestable, others


def _suspects(
    search: BisectSearch, indices: Sequence[int], chances: Floats
) -> tuple[Suspect, ...]:
    """Return the candidates that may be the culprit, the likeliest first."""
    total = float(sum(chances[index] for index in indices))
    ranked = sorted(indices, key=lambda index: (-chances[index], index))
    details = search.range.details(ranked[:_NOTED], search.clues)
    return tuple(
        replace(
            details.get(index) or search.range.change(index),
            probability=round(float(chances[index]) / total, 4),
        )
        for index in ranked
    )
