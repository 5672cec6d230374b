"""The life of each failure over the nights: where it came, which cases have it, and when it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from triage.model.outcome import Status
from triage.nights.history import NightsHistory, StateRun
from triage.nights.record import Json, StoredNight, status_in
from triage.nights.store import NightStore

_FIELDS = (
    "culprit",
    "release_culprit",
    "fix",
    "reproducer",
    "remedies",
    "issue",
    "attribution",
    "same_culprit",
    "operations",
    "size",
    "replays",
)
#: What `investigations` returns of a failure that no night says more about.
NOTHING_KNOWN: Mapping[str, Any] = {**dict.fromkeys((*_FIELDS, "representative", "tracker")), "nights": {}}


@dataclass(frozen=True, slots=True)
class FailingRun:
    """Nights in which a case has a failure. before, after: its runs around them; is_open: it still fails so."""

    case: int
    run: StateRun
    before: StateRun | None
    after: StateRun | None
    is_open: bool


@dataclass(frozen=True)
class FailureLife:
    """All nights and cases of one signature. kind: the failure as JSON, as it was last seen."""

    signature: str
    kind: Json
    runs: tuple[FailingRun, ...]

    @property
    def cases(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(failing.case for failing in self.runs))

    @property
    def open_cases(self) -> tuple[int, ...]:
        return tuple(failing.case for failing in self.runs if failing.is_open)

    @property
    def first(self) -> int:
        return min(failing.run.first for failing in self.runs)

    @property
    def last(self) -> int:
        return max(failing.run.last for failing in self.runs)

    @property
    def since(self) -> int:
        """The night since which it is open; the first one where it is not."""
        return min((failing.run.first for failing in self.runs if failing.is_open), default=self.first)

    @property
    def fixed(self) -> int | None:
        """The first night without it, None while it is open or where its cases are gone."""
        if self.open_cases:
            return None
        ends = [failing.after.first for failing in self.runs if failing.after and not failing.after.failed]
        return max(ends, default=None)

    @property
    def is_expected(self) -> bool:
        """Whether every open case fails as its recipe expects."""
        return all(status_in(failing.run.code)[0] is Status.XFAIL for failing in self.runs if failing.is_open)


def failure_lives(history: NightsHistory) -> tuple[FailureLife, ...]:
    """Return all failures, the one that is open for the shortest time first, those that are gone last."""
    runs: dict[int, list[FailingRun]] = {}
    for case, of_case in enumerate(history.runs):
        for number, run in enumerate(of_case):
            if not run.failed or not run.signature:
                continue
            after = of_case[number + 1] if number + 1 < len(of_case) else None
            before = of_case[number - 1] if number else None
            failing = FailingRun(case, run, before, after, after is None and history.is_current(case))
            runs.setdefault(run.signature, []).append(failing)
    lives = [_life(history, signature, tuple(of_signature)) for signature, of_signature in runs.items()]
    return tuple(sorted(lives, key=lambda life: (not life.open_cases, -life.since, -len(life.cases), life.signature)))


def new_failures(history: NightsHistory) -> Mapping[int, StateRun]:
    """Return the cases that fail since the last night of their suite and did not before, by row."""
    new = {}
    for case, runs in enumerate(history.runs):
        run = runs[-1]
        is_new = run.failed and len(runs) > 1 and not runs[-2].failed and run.first == run.last
        if is_new and history.is_current(case) and status_in(run.code)[0] is Status.FAILED:
            new[case] = run
    return new


def investigations(store: NightStore, nights: Iterable[StoredNight]) -> dict[str, dict[str, Any]]:
    """Return what nights say about each failure, by the id of its cluster: of every field the newest value, and under
    `nights` the number of the night that it comes from. tracker: the issue that a recipe names, or that was opened for it.
    """
    known: dict[str, dict[str, Any]] = {}

    def entry(name: str) -> dict[str, Any]:
        return known.setdefault(name, {**NOTHING_KNOWN, "nights": {}})

    for night in nights:
        report = store.report(night.number)
        for cluster in report.get("clusters", ()):
            values = {name: cluster[name] for name in _FIELDS if cluster.get(name)}
            of_cluster = entry(cluster["id"])
            of_cluster.update(values)
            of_cluster["representative"] = cluster.get("representative") or of_cluster["representative"]
            of_cluster["nights"].update(dict.fromkeys(values, night.number))
        for case in report.get("cases", ()):
            if case.get("cluster"):
                of_cluster = entry(case["cluster"])
                of_cluster["tracker"] = case.get("issue") or of_cluster["tracker"]
                for bisection in case.get("bisections", ()):
                    is_culprit = (bisection["kind"] == "regression") is not bisection.get("undone", False)
                    side = "culprit" if is_culprit else "fix"
                    of_cluster[side] = of_cluster[side] or bisection
    for cluster_id, issue in store.issues().items():
        of_cluster = entry(cluster_id)
        of_cluster["tracker"] = of_cluster["tracker"] or issue
    return known


def _life(history: NightsHistory, signature: int, runs: tuple[FailingRun, ...]) -> FailureLife:
    newest = max(runs, key=lambda failing: failing.run.last)
    kind = history.kind_of(newest.case, newest.run.last)
    return FailureLife(history.signatures[signature], kind, runs)
