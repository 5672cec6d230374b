"""What a night changes in a repository's issues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.nights.documents import case_result
from tests.nights.documents import night as night_of
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    StepResult,
)
from triage.model.case import Target
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.nightly.issues import (
    ActionKind,
    FailureRange,
    IssueChange,
    IssueChanges,
    Marker,
    TrackedIssue,
    marker_in,
    plan_issues,
)
from triage.nightly.result import Night

OLD = Revision("3.2.0", "a" * 40, "2025-06-01")
NEW = Revision("3.3.0", "b" * 40, "2025-07-01")


def failure(
    signature: str, *cases: str, letter: str = "F", change: str = "regressed"
) -> list[CaseResult]:
    kind = Failure(signature, signature, signature, "headline")
    return [
        case_result(case, letter, failure=kind, change=CaseChangeKind(change))
        for case in cases
    ]


def night(
    *failures: list[CaseResult], passing: tuple[str, ...] = (), revision: Revision = NEW
) -> Night:
    cases = [case for cases in failures for case in cases]
    return night_of(
        1,
        {},
        cases=[*cases, *(case_result(name, "P") for name in passing)],
        toolchain=revision,
        baseline=OLD,
    )


def issue(
    number: int, signature: str, *cases: str, seen: Revision = OLD
) -> TrackedIssue:
    marker = Marker(ClusterKey("iree", "llvm-cpu", signature), cases, seen)
    return TrackedIssue(number, f"issue {number}", f"{marker.text()}\nbody", marker)


def closed(
    tracked: TrackedIssue, reason: str = "completed", on: str = "2025-06-15"
) -> TrackedIssue:
    return replace(tracked, is_open=False, state_reason=reason, closed_on=on)


def changes(result: IssueChanges) -> list[tuple[str, int | None]]:
    return [(change.action, change.issue) for change in result.changes]


def planned(
    result: Night, *issues: TrackedIssue, limit: int = 10
) -> list[tuple[str, int | None]]:
    return changes(plan_issues(result, issues, limit))


def after(tracked: TrackedIssue, action: IssueChange) -> TrackedIssue:
    """Return the issue as GitHub has it after an action."""
    body = tracked.body_with(action.marker)
    marker = marker_in(body)
    assert marker == action.marker
    return replace(tracked, body=body, marker=marker)


def test_a_new_failure_gets_one_issue() -> None:
    result = night(failure("s", "a", "b"), failure("old", "c", change="failing"))
    [action] = plan_issues(result, [], 10).changes
    assert (action.action, action.signature, action.cases) == (
        ActionKind.OPEN,
        "s",
        ("a", "b"),
    )
    key = ClusterKey("iree", "llvm-cpu", "s")
    assert action.marker == Marker(key, ("a", "b"), NEW, came(OLD, NEW))
    assert planned(result, issue(1, "s", "a", "b")) == []


def test_an_issue_is_closed_when_all_of_its_cases_pass() -> None:
    assert planned(night(passing=("a", "b")), issue(1, "s", "a", "b")) == [("close", 1)]
    assert planned(night(passing=("a",)), issue(1, "s", "a", "b")) == [], (
        "a case was not tested"
    )
    assert planned(
        night(failure("other", "b"), passing=("a",)), issue(1, "s", "a", "b")
    ) == [("open", None)]


def test_an_older_compiler_changes_nothing() -> None:
    seen = issue(1, "s", "a", seen=NEW)
    assert planned(night(passing=("a",), revision=OLD), seen) == []
    assert planned(night(failure("s", "a"), revision=OLD), closed(seen)) == []
    undated = [replace(revision, date=None) for revision in (OLD, NEW)]
    assert (
        planned(
            night(passing=("a",), revision=undated[0]),
            issue(1, "s", "a", seen=undated[1]),
        )
        == []
    )
    assert planned(night(passing=("a",), revision=Revision("path:build")), seen) == [
        ("close", 1)
    ]


@pytest.mark.parametrize(
    ("reason", "on"),
    [
        ("not_planned", "2025-06-15"),
        ("duplicate", "2025-06-15"),
        ("completed", "2025-07-01"),
    ],
)
def test_what_a_person_closed_stays_closed_until_a_newer_compiler_fails(
    reason: str, on: str
) -> None:
    result = plan_issues(
        night(failure("s", "a")), [closed(issue(1, "s", "a"), reason, on)], 10
    )
    assert result.changes == ()


def of_backend(
    backend: str, cases: list[CaseResult], compiler: str = "iree"
) -> list[CaseResult]:
    return [replace(case, target=Target(backend), compiler=compiler) for case in cases]


def test_each_backend_and_family_has_an_issue_of_its_own() -> None:
    cuda, rocm, other = (
        of_backend("cuda", failure("s", "a")),
        of_backend("rocm", failure("s", "b")),
        of_backend("cuda", failure("s", "c"), "xla"),
    )
    opened = plan_issues(night(cuda, rocm, other), [], 10).changes
    assert [(action.action, action.cases) for action in opened] == [
        ("open", ("a",)),
        ("open", ("b",)),
        ("open", ("c",)),
    ]
    markers = [action.marker for action in opened]
    tracked = [
        TrackedIssue(number, "", marker.text(), marker)
        for number, marker in enumerate(markers, 1)
    ]
    assert planned(night(cuda, rocm, other), *tracked) == []
    assert planned(night(cuda, rocm, other), tracked[0]) == [("open", None)] * 2
    passing = of_backend("cuda", [case_result("a", "P")])
    assert planned(night(rocm, other, passing), *tracked) == [("close", 1)]


def came(before: Revision | None, after: Revision) -> FailureRange:
    return FailureRange(before, after)


def test_a_failure_that_came_elsewhere_has_an_issue_of_its_own() -> None:
    """One signature, two bugs: the first one was fixed and its issue closed."""
    older = Revision("3.1.0", "c" * 40, "2025-05-01")
    first = issue(7, "s", "llama")
    first = replace(first, marker=replace(first.marker, came=came(older, OLD)))
    result = night(failure("s", "i4-matvec"), passing=("llama",))
    for known in (first, closed(first)):
        opened = plan_issues(result, [known], 10).changes[-1]
        assert (opened.action, opened.cases, opened.cluster) == (
            ActionKind.OPEN,
            ("i4-matvec",),
            result.clusters[0],
        )
        assert opened.marker.came == came(OLD, NEW)
    second = TrackedIssue(8, "", opened.marker.text(), opened.marker)
    later = Revision("3.4.0", "d" * 40, "2025-08-01")
    failing = failure("s", "llama", "i4-matvec", change="failing")
    both = replace(night(failing, revision=later), baseline=NEW)
    assert planned(both, first, second) == [], "each knows its case"
    back = failure("s", "llama"), failure("s", "i4-matvec", change="failing")
    again = replace(night(*back, revision=later), baseline=NEW)
    assert planned(again, closed(first), second) == [("open", None)], (
        "another compiler brought it back"
    )


def test_a_bisect_tells_two_failures_of_one_night_apart() -> None:
    middle = Revision("3.2.5", "e" * 40, "2025-06-10")
    cases = failure("s", "early", "late")
    ranges = {"early": (OLD, middle), "late": (middle, NEW)}
    cases = [
        replace(
            case,
            bisections=[
                Bisection(
                    case=case.case,
                    kind=BisectKind.REGRESSION,
                    status=Answer.CULPRIT,
                    before=ranges[case.case][0],
                    after=ranges[case.case][1],
                )
            ],
        )
        for case in cases
    ]
    result = night(cases)
    known = issue(1, "s", "early")
    known = replace(known, marker=replace(known.marker, came=came(OLD, middle)))
    [opened] = plan_issues(result, [known], 10).changes
    assert (opened.action, opened.cases) == (ActionKind.OPEN, ("late",))


def test_two_failures_of_one_signature_are_two_issues_in_their_first_night() -> None:
    """An investigation parts their cases."""
    result = night(failure("s", "early", "same", "late"))
    [cluster] = result.clusters
    early = replace(cluster, representative="early", cases=["early", "same"])
    late = replace(cluster, id=f"{cluster.id}.2", cases=["late"])
    result = replace(result, clusters=[early, late])
    opened = plan_issues(result, [], 10).changes
    assert [(each.action, each.cases, each.cluster) for each in opened] == [
        ("open", ("early", "same"), early),
        ("open", ("late",), late),
    ]
    tracked = [
        TrackedIssue(number, "", each.marker.text(), each.marker)
        for number, each in enumerate(opened, 1)
    ]
    assert planned(result, *tracked) == []


def test_an_investigation_of_a_later_night_is_told_once() -> None:
    result, known = night(failure("s", "a")), issue(1, "s", "a")
    assert planned(result, known) == []
    [cluster] = result.clusters
    cluster = replace(cluster, representative="a", steps=[StepResult("reduce", "done")])
    investigated = replace(result, clusters=[cluster])
    [told] = plan_issues(investigated, [known], 10).changes
    assert (told.action, told.cases, told.cluster) == (
        ActionKind.COMMENT,
        ("a",),
        cluster,
    )
    assert planned(investigated, after(known, told)) == []


def test_an_expected_failure_neither_opens_nor_reopens_nor_extends() -> None:
    expected = failure("s", "a", "b", letter="X", change="known")
    assert planned(night(expected)) == []
    assert planned(night(expected), issue(1, "s", "a")) == []
    assert planned(night(expected), closed(issue(1, "s", "a"))) == []
    [opened] = plan_issues(night(expected, failure("s", "c")), [], 10).changes
    assert opened.cases == ("c",)


def test_a_closed_issue_takes_in_no_further_case() -> None:
    more = night(failure("s", "a"), failure("s", "c", change="failing"))
    [reopened] = plan_issues(more, [closed(issue(1, "s", "a"))], 10).changes
    assert (reopened.action, reopened.cases) == (ActionKind.REOPEN, ("a",))
    only = night(failure("s", "c"))
    assert planned(only, closed(issue(1, "s", "a"))) == [("open", None)]
    assert planned(only, issue(1, "s", "a")) == [("comment", 1)]
    before = night(failure("s", "c", change="failing"))
    assert planned(before, issue(1, "s", "a")) == []


@pytest.mark.parametrize(
    "text",
    ["-->", "<!-- triage {} -->", "}} --> }", "\u2028\x00\n`@someone`", "\\u003e"],
)
def test_a_marker_survives_hostile_text(text: str) -> None:
    marker = Marker(
        ClusterKey(text, text, text), (text, "b"), Revision(text, None, text)
    )
    shown = f"{marker.text()}\n{Marker(ClusterKey('', '', 'other'), (), NEW).text()}"
    assert marker_in(shown) == marker
    assert "\n" not in marker.text()
    assert marker.text().count("-->") == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<!-- triage {] -->",
        '<!-- triage {"signature": 3, "cases": []} -->',
        "<!-- triage [] -->",
    ],
)
def test_a_damaged_marker_is_none(body: str) -> None:
    assert marker_in(body) is None
