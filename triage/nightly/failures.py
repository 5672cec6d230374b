"""The life of each failure over the nights: where it came, which cases have it, and when it went."""

from __future__ import annotations

from dataclasses import dataclass, replace

from triage.model.outcome import Failure, Status
from triage.nightly.history import NightsHistory, StateRun, Track
from triage.nightly.result import FailureCluster, cluster_id
from triage.nightly.store import NightStore


@dataclass(frozen=True, slots=True)
class FailingRun:
    """Nights in which a case has a failure, with its results before and after."""

    row: int
    run: StateRun
    before: StateRun | None
    after: StateRun | None
    """None where the failure is the last result that is known."""


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of one signature in a track."""

    track: Track
    signature: str
    kind: Failure
    """The failure as it was last seen."""
    runs: tuple[FailingRun, ...]
    page: str
    """Name of its page."""

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(failing.row for failing in self.runs))

    @property
    def open_runs(self) -> tuple[FailingRun, ...]:
        """Those of the cases that still fail so, as far as is known, and are not expected to; where all are expected, all."""
        last = [failing for failing in self.runs if failing.after is None]
        return tuple([failing for failing in last if failing.run.status is Status.FAILED] or last)

    @property
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or `gone`."""
        statuses = {failing.run.status for failing in self.open_runs}
        return "open" if Status.FAILED in statuses else "known" if statuses else "gone"

    @property
    def first(self) -> FailingRun:
        """The first run with it."""
        return min(self.runs, key=lambda failing: failing.run.first)

    @property
    def current(self) -> FailingRun:
        """The run since which it is open; the first one where it is gone."""
        return min(self.open_runs or self.runs, key=lambda failing: failing.run.first)

    @property
    def last(self) -> int:
        """The last night with it."""
        return max(failing.run.last for failing in self.runs)

    @property
    def gone(self) -> int | None:
        """The first night without it; None while it is not gone."""
        return None if self.open_runs else max(failing.after.first for failing in self.runs if failing.after)


@dataclass(frozen=True)
class KnownFailure:
    """What nights found out about a failure."""

    cluster: FailureCluster
    night: int = 0
    """The night that found it out."""
    tracker: str | None = None
    """The issue that a recipe names, or that was opened for it."""


def failure_lives(history: NightsHistory) -> tuple[FailureLife, ...]:
    """Return all failures: first the open ones, the newest of these first, then the known ones, then those that are gone."""
    found: dict[tuple[Track, int], list[FailingRun]] = {}
    for row, runs in enumerate(history.runs):
        tested: list[StateRun] = []
        for run in runs:
            if tested and run.failed and tested[-1].failed and tested[-1].signature == run.signature:
                tested[-1] = replace(run, first=tested[-1].first)  # only its expectation changed
            elif run.status is not Status.UNTESTABLE:
                tested.append(run)
        for number, run in enumerate(tested):
            if run.failed and run.signature:
                before = tested[number - 1] if number else None
                after = tested[number + 1] if number + 1 < len(tested) else None
                found.setdefault((history.rows[row][0], run.signature), []).append(FailingRun(row, run, before, after))
    pages: dict[str, int] = {}
    lives = []
    for (track, signature), failing in sorted(found.items()):
        text = history.signatures[signature]
        newest = max(failing, key=lambda each: each.run.last)
        kind = history.kind_of(newest.row, newest.run.last)
        assert kind
        number = pages[text] = pages.get(text, 0) + 1
        page = cluster_id(text) + (f"-{number}" if number > 1 else "")
        lives.append(FailureLife(track, text, kind, tuple(failing), page))
    order = {"open": 0, "known": 1, "gone": 2}
    return tuple(sorted(lives, key=lambda life: (order[life.state], -life.current.run.first, -len(life.rows), life.signature)))


def known_failures(store: NightStore, history: NightsHistory) -> dict[tuple[str, str], KnownFailure]:
    """Return what nights found out about each failure, by compiler and signature."""
    known: dict[tuple[str, str], KnownFailure] = {}
    issues = store.issues()
    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            key = (night.compiler or "", cluster.signature)
            before, tracker = known.get(key), issues.get(cluster_id(cluster.signature))
            if before is None:
                known[key] = KnownFailure(cluster, number, tracker)
            elif cluster.steps or not before.cluster.steps:
                culprit, fix = cluster.culprit or before.cluster.culprit, cluster.fix or before.cluster.fix
                known[key] = KnownFailure(replace(cluster, culprit=culprit, fix=fix), number, tracker)
        for case in night.cases:
            if case.failure and case.issue:
                key = (case.compiler, case.failure.signature)
                empty = KnownFailure(FailureCluster(signature=key[1], cases=[], id=cluster_id(key[1])), number)
                known[key] = replace(known.get(key, empty), tracker=case.issue)
    return known
