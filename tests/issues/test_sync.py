"""Issues are written once, whatever GitHub answers, and say only what a night found
out: `triage issues sync`, and its client, on a loopback GitHub with faults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.conftest import Triage
from tests.issues.loopback_issues import (
    ISSUES,
    LIMIT,
    TOKEN,
    Fault,
    LoopbackIssues,
    loopback_issues,
)
from tests.issues.test_plan import issue as known_issue
from tests.issues.test_plan import night as night_with
from tests.nightly.test_night import night_of
from triage.cli.nights import open_nights
from triage.investigate.result import FailureCluster, StepResult
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Revision
from triage.nightly.issues import (
    ActionKind,
    GitHubIssues,
    IssueChange,
    Marker,
    marker_in,
    plan_issues,
)
from triage.nightly.result import Night
from triage.reduce.result import IssueDraft
from triage.remedy.result import Remedy
from triage.report.issue import issue_body
from triage.report.night import write_reports

HISTORIES = {
    "first": "PF",
    "second": "PF",
    "other": "PG",
    "before": "FF",
    "fine": "PP",
    "fixed": "FP",
}


@pytest.fixture
def hub() -> Iterator[LoopbackIssues]:
    with loopback_issues() as server:
        yield server


@pytest.fixture
def night() -> Night:
    return night_of(HISTORIES)


def client(hub: LoopbackIssues) -> GitHubIssues:
    return GitHubIssues("o/r", TOKEN, hub.url, pause=0)


def after_day(hub: LoopbackIssues, day: int, ending: str) -> None:
    """Do what a night asks for in which `a` ends so, as a run of the command does."""
    toolchain = Revision(f"3.4.0rc2025070{day}", None, f"2025-07-0{day}")
    night, github = replace(night_with({"a": ending}), toolchain=toolchain), client(hub)
    for change in plan_issues(night, github.read(), 100).changes:
        github.apply(change, "text")


def test_a_failure_lives_through_its_issue(hub: LoopbackIssues) -> None:
    for day, ending in enumerate(("new", "new", "passing", "passing", "new"), 1):
        after_day(hub, day, ending)
    [issue] = hub.issues.values()
    title = "legalize: failed to legalize operation 'x'"
    assert (issue["state"], issue["title"]) == ("open", title)
    assert issue["labels"] == [{"name": "triage"}]
    # one issue; two comments, each with a change of state
    assert (len(hub.comments[1]), len(hub.writes())) == (2, 5)
    marker = marker_in(issue["body"])
    assert marker is not None
    assert marker.toolchain.date == "2025-07-05"
    assert hub.tokens == {f"token {TOKEN}"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(f"POST {ISSUES}", 502, done=True),
        Fault(f"POST {ISSUES}", done=True),
        Fault(f"POST {ISSUES}", 403, LIMIT),
        Fault(f"GET {ISSUES}", 403, LIMIT),
        Fault(f"GET {ISSUES}"),
        Fault(f"POST {ISSUES}/1/comments", 502, done=True),
        Fault(f"PATCH {ISSUES}/1", 422),
    ],
)
def test_a_run_that_a_fault_ended_is_finished_by_the_next_and_nothing_is_there_twice(
    hub: LoopbackIssues, fault: Fault
) -> None:
    hub.faults = [fault]
    for day, ending in ((1, "new"), (2, "passing")):
        for _ in range(2):
            with suppress(EnvironmentFailure):
                after_day(hub, day, ending)
    assert hub.faults == []
    [issue] = hub.issues.values()
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert len(hub.comments[1]) == 1


@pytest.mark.parametrize("body", ["<html>", "[" * 100_000, '[{"number": []}]'])
def test_an_answer_that_is_no_list_of_issues_is_an_error_of_the_environment(
    hub: LoopbackIssues, body: str
) -> None:
    hub.faults = [Fault(f"GET {ISSUES}", 200, body)]
    with pytest.raises(EnvironmentFailure):
        client(hub).read()


def test_markers_of_other_authors_are_not_believed(hub: LoopbackIssues) -> None:
    """A copied marker must not close the issue of a failure, nor stand for it."""
    forged = known_issue(["a"], "3.1.0").marker
    hub.add(forged.text(), labels=["triage"], author="stranger")
    after_day(hub, 1, "new")
    after_day(hub, 2, "passing")
    assert [issue["state"] for issue in hub.issues.values()] == ["open", "closed"]


Sync = Callable[..., Any]


@pytest.fixture
def sync(
    hub: LoopbackIssues, home: Path, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> Sync:
    """Runs the command, which ends with a code, and returns its JSON."""
    monkeypatch.setenv("GITHUB_API_URL", hub.url)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)

    def call(report: Path, *words: str, code: int = 0) -> Any:
        command = ("issues", "sync", report, "--repo", "o/r", *words)
        done = triage(*command, "--format", "json")
        assert done.returncode == code, done.stderr
        assert TOKEN not in done.stdout + done.stderr
        return json.loads(done.stdout or "{}")

    return call


def test_a_dry_run_changes_nothing_and_two_runs_change_it_once(
    hub: LoopbackIssues, night: Night, tmp_path: Path, sync: Sync
) -> None:
    write_reports(night, tmp_path)
    answer = sync(tmp_path)
    assert (answer["applied"], hub.writes()) == (False, [])
    changes = [(change["action"], change["cases"]) for change in answer["changes"]]
    assert changes == [("open", ["first", "second"]), ("open", ["other"])]
    answer = sync(tmp_path / "nightly.json", "--apply", "--limit", "1")
    assert [change["issue"] for change in answer["changes"]] == [1]
    assert len(answer["left"]) == 1
    hub.faults = [Fault(f"POST {ISSUES}", 422)]
    answer = sync(tmp_path, "--apply", code=4)
    assert (answer["changes"], len(answer["left"])) == ([], 1)
    answer = sync(tmp_path, "--apply")
    assert [change["issue"] for change in answer["changes"]] == [2]
    assert answer["left"] == []
    numbers = {"first": 1, "second": 1, "other": 2}
    assert open_nights().issues()[night.started] == {
        case: f"{hub.url}/o/r/issues/{number}" for case, number in numbers.items()
    }


@pytest.mark.parametrize(
    ("words", "token"),
    [
        ((), TOKEN),
        (("--apply",), ""),
        (("--repo", "https://github.com/o/r"), TOKEN),
        (("--repo", "../.."), TOKEN),
        ((), "secret\r\ntoken"),
    ],
)
def test_wrong_words_are_refused_before_the_network_is_used(
    hub: LoopbackIssues,
    tmp_path: Path,
    sync: Sync,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    token: str,
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", token)
    (tmp_path / "nightly.json").write_text("[]")
    for report in (tmp_path, tmp_path / "missing"):
        sync(report, *words, code=2)
    assert hub.requests == []


def test_no_file_that_a_night_names_is_published(
    hub: LoopbackIssues, night: Night, tmp_path: Path, sync: Sync
) -> None:
    """What an issue says comes from the JSON, without the troubles of a search."""
    draft = IssueDraft({"input.mlir": "module @small {}"}, "iree-compile input.mlir")
    steps = [StepResult("reduce", "failed", reason="very secret")]
    clusters = [replace(each, draft=draft, steps=steps) for each in night.clusters]
    write_reports(replace(night, clusters=clusters), tmp_path)
    for path in (tmp_path / "issues").iterdir():
        path.write_text("very secret")
    sync(tmp_path, "--apply")
    assert len(hub.issues) == 2
    for issue in hub.issues.values():
        assert "module @small {}" in issue["body"]
        assert "very secret" not in issue["body"]


def body_of(
    night: Night, action: ActionKind, cluster: FailureCluster, title: str = "t"
) -> str:
    """Return what a change about a failure writes."""
    cases = tuple(cluster.cases)
    marker = Marker(cluster.key, cases, night.toolchain)
    return issue_body(IssueChange(action, title, cases, marker, cluster), night)


@pytest.mark.parametrize("action", [ActionKind.COMMENT, ActionKind.REOPEN])
def test_a_comment_says_what_the_night_found_out(
    night: Night, action: ActionKind
) -> None:
    draft = IssueDraft({"a.mlir": "module @small {}"}, "iree-compile a.mlir")
    remedy = Remedy(flags=("--iree-opt-level=O1",), result=night.cases[0].baseline)
    cluster = replace(night.clusters[0], draft=draft, remedies=[remedy])
    assert cluster.culprit
    text = body_of(night, action, cluster)
    for said in ("1.1.0", "--iree-opt-level=O1", "module @small", "first", "second"):
        assert said in text
    plain = cluster.key.cluster(cluster.cases, cluster.failure)
    assert len(body_of(night, action, plain).splitlines()) <= 5


@pytest.mark.parametrize("action", list(ActionKind))
def test_hostile_texts_stay_text(night: Night, action: ActionKind) -> None:
    evil = "@someone #12 <img src=x> ```\n# x\n<!-- triage {} --> [x](javascript:x)"
    cluster = replace(
        night.clusters[0],
        signature=evil,
        cases=[evil] * 30,
        draft=IssueDraft({evil: evil}, evil, evil, evil, [evil]),
        representative=evil,
    )
    hostile = Revision(evil)
    known = {"clusters": [cluster], "toolchain": hostile, "baseline": hostile}
    text = body_of(replace(night, **known), action, cluster, evil)
    blocks = MarkdownIt().parse(text)
    tokens = [*blocks, *(token for block in blocks for token in block.children or ())]
    assert "image" not in {token.type for token in tokens}
    links = [str(token.attrs["href"]) for token in tokens if token.type == "link_open"]
    public = "https://github.com/iree-org/iree/compare/"
    assert all(link.startswith(public) for link in links)
    html = {token.content for token in tokens if token.type == "html_inline"}
    assert html <= {"<sub>", "</sub>", "<details>"}
    assert 0 < len(text) < 20_000
