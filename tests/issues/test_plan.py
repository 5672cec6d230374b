"""What a night changes in a repository's issues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.nights.documents import case_result
from tests.nights.documents import night as night_of
from tests.nights.test_site import FIX
from triage.investigate.result import ClusterKey, StepResult
from triage.model.revision import Revision
from triage.nightly.issues import (
    FailureRange,
    Marker,
    TrackedIssue,
    marker_in,
    plan_issues,
    with_marker,
)
from triage.nightly.result import Night

DATES = {
    "3.1.0": "2025-05-01",
    "3.2.0": "2025-06-01",
    "3.2.5": "2025-06-10",
    "3.3.0": "2025-07-01",
    "3.4.0": "2025-08-01",
}
KEY = ClusterKey("iree", "llvm-cpu", "legalize:x")
# the letter of a case, and that of the baseline
ENDINGS = {
    "new": "FP",
    "other": "GP",
    "failing": "FF",
    "expected": "XP",
    "passing": "PP",
}
ROWS = yaml.safe_load(Path(__file__).with_name("plan.yaml").read_text())


def revision(name: str) -> Revision:
    version = name.partition(" ")[0]
    return Revision(version, version.encode().hex(), DATES.get(name))


def night(endings: dict[str, str], new: str = "3.3.0", old: str = "3.2.0") -> Night:
    """Return a night whose cases end so."""
    cases = [case_result(name, *ENDINGS[ending]) for name, ending in endings.items()]
    ends = {"toolchain": revision(new), "baseline": revision(old)}
    return night_of(1, {}, cases=cases, **ends)


def issue(
    cases: Sequence[str],
    seen: str = "3.2.0",
    closed: str = "",
    came: FailureRange | None = None,
    number: int = 1,
) -> TrackedIssue:
    marker = Marker(KEY, tuple(cases), revision(seen), came or FailureRange())
    state = (not closed, closed or None, "2025-06-15" if closed else "")
    return TrackedIssue(number, "", marker, *state)


def planned(result: Night, *issues: TrackedIssue) -> list[str]:
    """Return each change as its action, the number of its issue, and its cases."""
    return [
        f"{change.action} {change.issue or 'new'}: {' '.join(change.cases)}"
        for change in plan_issues(result, issues, 10).changes
    ]


@pytest.mark.parametrize("row", ROWS)
def test_a_night_changes_issues(row: Any) -> None:
    issues = [issue(**row["issue"])] if "issue" in row else []
    result = night(row["night"], row.get("toolchain", "3.3.0"))
    assert planned(result, *issues) == row.get("changes", [])


def test_a_failure_that_came_elsewhere_has_an_issue_of_its_own() -> None:
    """One signature, two bugs: the first one was fixed and its issue closed."""
    came = FailureRange(revision("3.1.0"), revision("3.2.0"))
    first, closed = (issue(["llama"], "3.2.0", why, came) for why in ("", "completed"))
    result = night({"i4": "new", "llama": "passing"})
    for known in (first, closed):
        change = plan_issues(result, [known], 10).changes[-1]
        assert (change.issue, change.cases) == (None, ("i4",))
        assert change.marker.came == FailureRange(revision("3.2.0"), revision("3.3.0"))
    second = TrackedIssue(8, "", change.marker)
    both = night({"llama": "failing", "i4": "failing"}, "3.4.0", "3.3.0")
    assert planned(both, first, second) == []
    # another compiler brought it back
    again = night({"llama": "new", "i4": "failing"}, "3.4.0", "3.3.0")
    assert planned(again, closed, second) == ["open new: llama"]


def test_an_investigation_of_a_later_night_is_told_once() -> None:
    known, result = issue(["a"]), night({"a": "new"})

    def after(*statuses: str) -> Night:
        steps = [StepResult("reduce", status) for status in statuses]
        return replace(result, clusters=[replace(result.clusters[0], steps=steps)])

    assert planned(after("left", "done"), known) == [], "the budget was spent"
    [change] = plan_issues(after("done"), [known], 10).changes
    assert planned(after("done"), known) == ["comment 1: a"]
    assert change.cluster == after("done").clusters[0]
    body = with_marker(f"{known.marker.text()}\nbody", change.marker)
    assert marker_in(body) == change.marker
    assert planned(after("done"), replace(known, marker=change.marker)) == []


def test_nobody_files_what_is_fixed() -> None:
    result = night({"a": "new"})
    fixed = replace(result.clusters[0], culprit=FIX)
    assert planned(replace(result, clusters=[fixed])) == []


@pytest.mark.parametrize(
    "text",
    ["-->", "<!-- triage {} -->", "}} --> }", "\u2028\x00\n`@someone`", "\\u003e"],
)
def test_a_marker_survives_hostile_text(text: str) -> None:
    hostile = Revision(text, None, text)
    marker = Marker(ClusterKey(text, text, text), (text, "b"), hostile)
    assert marker_in(f"{marker.text()}\n{issue(['other']).marker.text()}") == marker
    assert "\n" not in marker.text()
    assert marker.text().count("-->") == 1


def test_a_damaged_marker_is_none() -> None:
    for body in ("", "<!-- triage {] -->", '<!-- triage {"cases": []} -->'):
        assert marker_in(body) is None
