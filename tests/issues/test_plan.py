"""What a night changes in a repository's issues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.nights.documents import case_result
from tests.nights.documents import night as night_of
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    StepResult,
)
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.nightly.issues import (
    FailureRange,
    IssueChange,
    Marker,
    TrackedIssue,
    marker_in,
    plan_issues,
    with_marker,
)
from triage.nightly.result import Night

BEFORE = Revision("3.1.0", "c" * 40, "2025-05-01")
OLD = Revision("3.2.0", "a" * 40, "2025-06-01")
MIDDLE = Revision("3.2.5", "e" * 40, "2025-06-10")
NEW = Revision("3.3.0", "b" * 40, "2025-07-01")
LATER = Revision("3.4.0", "d" * 40, "2025-08-01")
KEY = ClusterKey("iree", "llvm-cpu", "s")


def fails(
    *cases: str, letter: str = "F", change: str = "regressed", **values: Any
) -> list[CaseResult]:
    kind = Failure("s", "s", "s", "headline")
    return [
        case_result(case, letter, failure=kind, change=CaseChangeKind(change), **values)
        for case in cases
    ]


def otherwise(*cases: str) -> list[CaseResult]:
    kind = Failure("other", "other", "other", "headline")
    return [replace(case, failure=kind) for case in fails(*cases)]


def passes(*cases: str) -> list[CaseResult]:
    return [case_result(case, "P") for case in cases]


def night(*cases: CaseResult, new: Revision = NEW, old: Revision = OLD) -> Night:
    return night_of(1, {}, cases=list(cases), toolchain=new, baseline=old)


def issue(
    number: int,
    *cases: str,
    seen: Revision = OLD,
    key: ClusterKey = KEY,
    came: FailureRange | None = None,
    **values: Any,
) -> TrackedIssue:
    marker = Marker(key, cases, seen, came or FailureRange())
    return TrackedIssue(number, f"issue {number}", marker, **values)


def closed(tracked: TrackedIssue, reason: str = "completed") -> TrackedIssue:
    return replace(tracked, is_open=False, state_reason=reason, closed_on="2025-06-15")


def opened(number: int, change: IssueChange) -> TrackedIssue:
    """Return an issue as GitHub has it after it was opened."""
    return TrackedIssue(number, "", change.marker)


def planned(result: Night, *issues: TrackedIssue) -> list[str]:
    """Return each change as its action, the number of its issue, and its cases."""
    return [
        f"{change.action} {change.issue or 'new'}: {' '.join(change.cases)}"
        for change in plan_issues(result, issues, 10).changes
    ]


EXPECTED = fails("a", "b", letter="X", change="known")
AS_BEFORE = fails("c", change="failing")


@pytest.mark.parametrize(
    ("result", "issues", "changes"),
    [
        (night(*fails("a", "b"), *AS_BEFORE), [], ["open new: a b"]),
        (night(*fails("a", "b")), [issue(1, "a", "b")], []),
        (night(*passes("a", "b")), [issue(1, "a", "b")], ["close 1: a b"]),
        # a case was not tested
        (night(*passes("a")), [issue(1, "a", "b")], []),
        (
            night(*otherwise("b"), *passes("a")),
            [issue(1, "a", "b")],
            ["open new: b"],
        ),
        # an older compiler
        (night(*passes("a"), new=OLD), [issue(1, "a", seen=NEW)], []),
        (night(*fails("a"), new=OLD), [closed(issue(1, "a", seen=NEW))], []),
        (
            night(*passes("a"), new=replace(OLD, date=None)),
            [issue(1, "a", seen=replace(NEW, date=None))],
            [],
        ),
        (
            night(*passes("a"), new=Revision("path:build")),
            [issue(1, "a", seen=NEW)],
            ["close 1: a"],
        ),
        # a person closed it
        (night(*fails("a")), [closed(issue(1, "a"), "not_planned")], []),
        (night(*fails("a")), [closed(issue(1, "a"), "duplicate")], []),
        (night(*fails("a"), new=MIDDLE), [closed(issue(1, "a"))], []),
        # the recipe expects it
        (night(*EXPECTED), [], []),
        (night(*EXPECTED), [issue(1, "a")], []),
        (night(*EXPECTED), [closed(issue(1, "a"))], []),
        (night(*EXPECTED, *fails("c")), [], ["open new: c"]),
        # only an open issue takes in further cases
        (
            night(*fails("a"), *AS_BEFORE),
            [closed(issue(1, "a"))],
            ["reopen 1: a"],
        ),
        (night(*fails("c")), [closed(issue(1, "a"))], ["open new: c"]),
        (night(*fails("c")), [issue(1, "a")], ["comment 1: c"]),
        (night(*AS_BEFORE), [issue(1, "a")], []),
    ],
)
def test_a_night_changes_issues(
    result: Night, issues: list[TrackedIssue], changes: list[str]
) -> None:
    assert planned(result, *issues) == changes


def test_a_failure_that_came_elsewhere_has_an_issue_of_its_own() -> None:
    """One signature, two bugs: the first one was fixed and its issue closed."""
    first = issue(7, "llama", came=FailureRange(BEFORE, OLD))
    result = night(*fails("i4-matvec"), *passes("llama"))
    for known in (first, closed(first)):
        change = plan_issues(result, [known], 10).changes[-1]
        assert (change.issue, change.cases) == (None, ("i4-matvec",))
        assert change.marker.came == FailureRange(OLD, NEW)
    second = opened(8, change)
    both = fails("llama", "i4-matvec", change="failing")
    assert planned(night(*both, new=LATER, old=NEW), first, second) == []
    back = fails("llama") + fails("i4-matvec", change="failing")
    again = night(*back, new=LATER, old=NEW)
    # another compiler brought it back
    assert planned(again, closed(first), second) == ["open new: llama"]


def test_an_investigation_of_a_later_night_is_told_once() -> None:
    known, done = issue(1, "a"), StepResult("reduce", "done")
    result = night(*fails("a"))

    def after(*steps: StepResult) -> Night:
        [cluster] = result.clusters
        return replace(result, clusters=[replace(cluster, steps=list(steps))])

    left = StepResult("remedy", "left")
    assert planned(after(left, done), known) == [], "the budget was spent"
    [told] = plan_issues(after(done), [known], 10).changes
    assert planned(after(done), known) == ["comment 1: a"]
    assert told.cluster == after(done).clusters[0]
    body = with_marker(f"{known.marker.text()}\nbody", told.marker)
    assert marker_in(body) == told.marker
    assert planned(after(done), replace(known, marker=told.marker)) == []


@pytest.mark.parametrize(
    "text",
    ["-->", "<!-- triage {} -->", "}} --> }", "\u2028\x00\n`@someone`", "\\u003e"],
)
def test_a_marker_survives_hostile_text(text: str) -> None:
    revision = Revision(text, None, text)
    marker = Marker(ClusterKey(text, text, text), (text, "b"), revision)
    shown = f"{marker.text()}\n{Marker(ClusterKey('', '', 'other'), (), NEW).text()}"
    assert marker_in(shown) == marker
    assert "\n" not in marker.text()
    assert marker.text().count("-->") == 1


@pytest.mark.parametrize(
    "body", ["", "<!-- triage {] -->", '<!-- triage {"cases": []} -->']
)
def test_a_damaged_marker_is_none(body: str) -> None:
    assert marker_in(body) is None
