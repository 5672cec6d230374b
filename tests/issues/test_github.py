"""Issues are written once, whatever GitHub answers: a real HTTP server with faults."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from tests.issues.loopback_issues import TOKEN, Fault, LoopbackIssues
from tests.nights.documents import case_result
from tests.nights.documents import night as night_of
from triage.investigate.result import ClusterKey
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Failure
from triage.model.revision import Revision
from triage.nightly.issues import (
    GitHubIssues,
    IssueChange,
    Marker,
    marker_in,
    plan_issues,
)
from triage.nightly.result import Night

LIST, ISSUE, COMMENTS = (
    "/repos/o/r/issues",
    "/repos/o/r/issues/1",
    "/repos/o/r/issues/1/comments",
)
AT_ONCE = (("Retry-After", "0"),)


def client(hub: LoopbackIssues) -> GitHubIssues:
    return GitHubIssues("o/r", TOKEN, hub.url, pause=0)


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
    actions = plan_issues(result, github.read(), 100).changes
    for action in actions:
        github.apply(replace(action, title=f"title {action.signature}"), "text")
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
    assert len(hub.comments[1]) == 2
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
        Fault(f"POST {LIST}", 502, done=True),
        Fault(f"POST {LIST}", 0, done=True, broken_off=True),
        Fault(f"POST {LIST}", 403, AT_ONCE),
        Fault(f"GET {LIST}", 403, AT_ONCE),
        Fault(f"GET {LIST}", 0, broken_off=True),
        Fault(f"POST {COMMENTS}", 502, done=True),
        Fault(f"PATCH {ISSUE}", 422),
    ],
)
def test_a_run_that_a_fault_ended_is_finished_by_the_next_and_nothing_is_there_twice(
    hub: LoopbackIssues, fault: Fault
) -> None:
    hub.faults = [fault]
    for result in (night(1, "s"), night(2, passing=("case-s",))):
        for _ in range(2):
            with suppress(EnvironmentFailure):
                synchronise(hub, result)
    assert hub.faults == []
    [issue] = hub.issues.values()
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert len(hub.comments[1]) == 1


@pytest.mark.parametrize("body", ["<html>", "[" * 100_000, '[{"number": []}]'])
def test_an_answer_that_is_no_list_of_issues_is_an_error_of_the_environment(
    hub: LoopbackIssues, body: str
) -> None:
    hub.faults = [Fault(f"GET {LIST}", 200, body=body)]
    with pytest.raises(EnvironmentFailure):
        client(hub).read()


def test_markers_of_other_authors_are_not_believed(hub: LoopbackIssues) -> None:
    """A copied marker must not close the issue of a failure, nor stand for it."""
    forged = Marker(
        ClusterKey("", "", "s"), ("case-s",), Revision("0.1", None, "2025-01-01")
    ).text()
    hub.add(forged, labels=["triage"], author="stranger")
    synchronise(hub, night(1, "s"))
    assert [issue["state"] for issue in hub.issues.values()] == ["open", "open"]
