"""The life of each failure over the nights: where it came, which cases have it, and when it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from triage.bisect.result import Bisection, BisectKind
from triage.model.outcome import Failure, Status
from triage.nightly.history import NightsHistory, StateRun, Track
from triage.nightly.result import FailureCluster, cluster_id
from triage.nightly.store import NightStore


@dataclass(frozen=True, slots=True)
class FailingRun:
    """Nights in which a case has a failure. after: the first later result without it, None where it is the last that is
    known.
    """

    row: int
    run: StateRun
    before: StateRun | None
    after: StateRun | None


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of one signature in a track. kind: the failure as it was last seen; page: name of its page."""

    track: Track
    signature: str
    kind: Failure
    runs: tuple[FailingRun, ...]
    page: str

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(failing.row for failing in self.runs))

    @property
    def open_rows(self) -> tuple[int, ...]:
        """The cases that still fail so, as far as is known: nothing newer has passed."""
        return tuple(failing.row for failing in self.runs if failing.after is None)

    @property
    def state(self) -> str:
        """`open`, `known` where every open case fails as its recipe expects, or `gone`."""
        statuses = {failing.run.status for failing in self.runs if failing.after is None}
        return "open" if Status.FAILED in statuses else "known" if statuses else "gone"

    @property
    def first(self) -> FailingRun:
        """The first run with it."""
        return min(self.runs, key=lambda failing: failing.run.first)

    @property
    def last(self) -> int:
        """The last night with it."""
        return max(failing.run.last for failing in self.runs)

    @property
    def since(self) -> int:
        """The night since which it is open; the first one where it is gone."""
        return min((failing.run.first for failing in self.runs if failing.after is None), default=self.first.run.first)

    @property
    def gone(self) -> int | None:
        """The first night without it; None while it is not gone."""
        return None if self.open_rows else max(failing.after.first for failing in self.runs if failing.after)


@dataclass
class KnownFailure:
    """What nights say about a failure: of each field the newest value. tracker: the issue that a recipe names, or that was
    opened for it.
    """

    cluster: FailureCluster
    culprit: Bisection | None = None
    fix: Bisection | None = None
    tracker: str | None = None
    night: int = field(default=0)


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
    return tuple(sorted(lives, key=lambda life: (order[life.state], -life.since, -len(life.rows), life.signature)))


def known_failures(store: NightStore, history: NightsHistory) -> dict[tuple[str, str], KnownFailure]:
    """Return what nights found out about each failure, by compiler and signature."""
    known: dict[tuple[str, str], KnownFailure] = {}

    def entry(compiler: str | None, signature: str) -> KnownFailure:
        empty = FailureCluster(signature=signature, cases=[], id=cluster_id(signature))
        return known.setdefault((compiler or "", signature), KnownFailure(empty))

    for number, night in enumerate(history.nights):
        for cluster in night.clusters:
            of_cluster = entry(night.compiler, cluster.signature)
            if cluster.steps or not of_cluster.cluster.steps:
                of_cluster.cluster, of_cluster.night = cluster, number
            of_cluster.culprit = cluster.culprit or of_cluster.culprit
            of_cluster.fix = cluster.fix or of_cluster.fix
        for case in night.cases:
            if case.failure:
                of_cluster = entry(case.compiler, case.failure.signature)
                of_cluster.tracker = case.issue or of_cluster.tracker
                for bisection in case.bisections:
                    if (bisection.kind == BisectKind.REGRESSION) is not bisection.undone:
                        of_cluster.culprit = of_cluster.culprit or bisection
                    else:
                        of_cluster.fix = of_cluster.fix or bisection
    issues = store.issues()
    for (_, signature), of_cluster in known.items():
        of_cluster.tracker = of_cluster.tracker or issues.get(cluster_id(signature))
    return known
