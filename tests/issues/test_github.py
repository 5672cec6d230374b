"""Issues are written once, whatever GitHub answers: a real HTTP server with faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.issues.loopback_issues import TOKEN, Fault, LoopbackIssues
from tests.nights.documents import case_result
from tests.nights.documents import night as night_of
from triage.investigate.result import ClusterKey
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.nightly.github import GitHubIssues
from triage.nightly.issues import (
    IssueChange,
    Marker,
    TrackedIssue,
    html_comment,
    marker_in,
    plan_issues,
)
from triage.nightly.result import Night

LIST, ISSUE, COMMENTS = (
    "/repos/o/r/issues",
    "/repos/o/r/issues/1",
    "/repos/o/r/issues/1/comments",
)
AGAIN, AT_ONCE = ((("Retry-After", seconds),) for seconds in ("1", "0"))


def client(hub: LoopbackIssues) -> GitHubIssues:
    return GitHubIssues("o/r", "triage", TOKEN, hub.url, pause=0)


def everything(_: TrackedIssue) -> bool:
    return True


def night(day: int, *failing: str, passing: tuple[str, ...] = ()) -> Night:
    cases = [
        case_result(f"case-{name}", "F", failure=Failure(name, name, name, "headline"))
        for name in failing
    ]
    toolchain = Revision(f"3.4.0rc2025070{day}", None, f"2025-07-0{day}")
    return night_of(
        day,
        {},
        cases=[*cases, *(case_result(name, "P") for name in passing)],
        toolchain=toolchain,
        baseline=Revision("3.3.0", None, "2025-06-20"),
    )


def synchronise(hub: LoopbackIssues, result: Night) -> list[IssueChange]:
    """Do what a night asks for, as a run of the command does."""
    github = client(hub)
    actions = plan_issues(result, github.read(everything), 100).changes
    for action in actions:
        github.apply(
            replace(action, title=f"title {action.signature}"),
            "text" if action.event or action.tracked is None else None,
        )
    return list(actions)


def test_a_failure_lives_through_its_issue(hub: LoopbackIssues) -> None:
    for day, failing in ((1, True), (2, True), (3, False), (4, False), (5, True)):
        synchronise(
            hub, night(day, "s") if failing else night(day, passing=("case-s",))
        )
    [issue] = hub.issues.values()
    assert (
        issue["state"],
        issue["title"],
        [name["name"] for name in issue["labels"]],
    ) == ("open", "title s", ["triage"])
    assert ["fixed" in comment["body"] for comment in hub.comments[1]] == [True, False]
    assert len(hub.writes()) == 5, (
        "one issue; two comments, each with a change of state"
    )
    marker = marker_in(issue["body"])
    assert marker is not None
    assert marker.toolchain.date == "2025-07-05"
    assert hub.tokens == {f"token {TOKEN}"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(f"POST {LIST}", 403, AGAIN),
        Fault(f"POST {LIST}", 502),
        Fault(f"POST {LIST}", 502, done=True),
        Fault(f"POST {LIST}", 0, done=True, broken_off=True),
        Fault(f"GET {LIST}", 429, AT_ONCE),
        Fault(f"GET {LIST}", 0, broken_off=True),
    ],
)
def test_a_fault_opens_one_issue(hub: LoopbackIssues, fault: Fault) -> None:
    hub.faults = [fault]
    synchronise(hub, night(1, "s"))
    assert (len(hub.issues), hub.faults) == (1, [])


@pytest.mark.parametrize(
    "fault",
    [
        Fault(f"POST {COMMENTS}", 502, done=True),
        Fault(f"POST {COMMENTS}", 502),
        Fault(f"PATCH {ISSUE}", 502),
        Fault(f"PATCH {ISSUE}", 502, done=True),
    ],
)
def test_a_fault_writes_one_comment(hub: LoopbackIssues, fault: Fault) -> None:
    synchronise(hub, night(1, "s"))
    hub.faults = [fault]
    synchronise(hub, night(2, passing=("case-s",)))
    assert (
        len(hub.comments[1]),
        hub.issues[1]["state"],
        hub.issues[1]["state_reason"],
    ) == (1, "closed", "completed")


def test_a_run_that_failed_between_comment_and_change_is_completed_by_the_next(
    hub: LoopbackIssues,
) -> None:
    synchronise(hub, night(1, "s"))
    hub.faults = [Fault(f"PATCH {ISSUE}", 422)]
    with pytest.raises(EnvironmentFailure, match="422"):
        synchronise(hub, night(2, passing=("case-s",)))
    assert (len(hub.comments[1]), hub.issues[1]["state"]) == (1, "open")
    synchronise(hub, night(2, passing=("case-s",)))
    assert (len(hub.comments[1]), hub.issues[1]["state"]) == (1, "closed")


def test_a_long_rate_limit_is_reported_and_not_waited_for(hub: LoopbackIssues) -> None:
    hub.faults = [Fault(f"GET {LIST}", 403, (("Retry-After", "3000"),))]
    with pytest.raises(EnvironmentFailure, match="3000 s") as raised:
        client(hub).read(everything)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("status", [401, 404, 410])
def test_a_refusal_is_an_error_of_the_environment(
    hub: LoopbackIssues, status: int
) -> None:
    hub.faults = [Fault(f"GET {LIST}", status)]
    with pytest.raises(EnvironmentFailure, match=f"o/r on 127.0.0.1: {status}"):
        client(hub).read(everything)


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "{}",
        "[1]",
        "[" * 100_000,
        '[{"id": "x", "number": []}]',
        '[{"id": 1}]',
    ],
)
def test_an_answer_that_is_no_list_of_issues_is_an_error_of_the_environment(
    hub: LoopbackIssues, body: str
) -> None:
    hub.faults = [Fault(f"GET {LIST}", 200, body=body)]
    with pytest.raises(EnvironmentFailure):
        client(hub).read(everything)


def test_only_labelled_issues_with_a_marker_are_read_and_comments_where_they_are_needed(
    hub: LoopbackIssues,
) -> None:
    synchronise(hub, night(1, "s"))
    hub.add("an issue of somebody else")
    hub.add(hub.issues[1]["body"], labels=["other"])
    hub.say(1, html_comment({"event": "fixed 3.4.0"}))
    needed = [client(hub).read(needed) for needed in (everything, lambda _: False)]
    assert [
        [(issue.number, set(issue.events)) for issue in issues] for issues in needed
    ] == [
        [(1, {"fixed 3.4.0"})],
        [(1, set())],
    ]


def test_markers_of_other_authors_are_not_believed(hub: LoopbackIssues) -> None:
    """A copied marker must not close the issue of a failure, nor stand for it."""
    forged = Marker(
        ClusterKey("", "", "s"), ("case-s",), Revision("0.1", None, "2025-01-01")
    ).text()
    hub.add(forged, author="stranger")
    synchronise(hub, night(1, "s"))
    assert [issue["state"] for issue in hub.issues.values()] == ["open", "open"]
    hub.say(2, html_comment({"event": "fixed 3.4.0rc20250702"}), "stranger")
    synchronise(hub, night(2, passing=("case-s",)))
    assert [issue["state"] for issue in hub.issues.values()] == ["open", "closed"]
    assert len(hub.comments[2]) == 2, "the copied event does not replace our comment"
