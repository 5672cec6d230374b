"""`triage issues sync` on a loopback GitHub, with the report of a night."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from tests.issues.loopback_issues import TOKEN, Fault, LoopbackIssues
from tests.nightly.test_night import night_of
from triage.cli.app import app
from triage.investigate.result import StepResult
from triage.model.revision import Revision
from triage.nightly.issues import ActionKind, IssueChange, Marker
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.reduce.result import IssueDraft
from triage.remedy.result import Remedy
from triage.report.issue import issue_body
from triage.report.night import write_reports
from triage.toolchains.home import Home

HISTORIES = {
    "first": "PF",
    "second": "PF",
    "other": "PG",
    "before": "FF",
    "fine": "PP",
    "fixed": "FP",
}


@pytest.fixture
def night() -> Night:
    return night_of(HISTORIES)


def sync(
    hub: LoopbackIssues, report: Path, *words: str, token: str = TOKEN
) -> tuple[int, dict[str, Any]]:
    command = ["issues", "sync", str(report), "--repo", "o/r", *words]
    env = {"GITHUB_API_URL": hub.url, "GITHUB_TOKEN": token}
    done = CliRunner().invoke(app, [*command, "--format", "json"], env=env)
    assert TOKEN not in done.output
    return done.exit_code, json.loads(done.stdout or "{}")


def test_a_dry_run_changes_nothing_and_two_runs_change_it_once(
    hub: LoopbackIssues, night: Night, tmp_path: Path, home: Path
) -> None:
    write_reports(night, tmp_path)
    code, answer = sync(hub, tmp_path)
    assert (code, answer["applied"], hub.writes()) == (0, False, [])
    planned = [(change["action"], change["cases"]) for change in answer["changes"]]
    assert planned == [("open", ["first", "second"]), ("open", ["other"])]
    _, answer = sync(hub, tmp_path / "nightly.json", "--apply", "--limit", "1")
    assert [change["issue"] for change in answer["changes"]] == [1]
    assert len(answer["left"]) == 1
    hub.faults = [Fault("POST /repos/o/r/issues", 422)]
    code, answer = sync(hub, tmp_path, "--apply")
    assert (code, answer["changes"], len(answer["left"])) == (4, [], 1)
    _, answer = sync(hub, tmp_path, "--apply")
    assert [change["issue"] for change in answer["changes"]] == [2]
    assert answer["left"] == []
    titles = [issue["title"].partition(":")[0] for issue in hub.issues.values()]
    assert titles == ["class-F", "class-G"]
    known = NightStore(Home(home)).issues()[night.started]
    assert [known[case] for case in ("first", "second", "other")] == [
        f"{hub.url}/o/r/issues/{number}" for number in (1, 1, 2)
    ]


@pytest.mark.parametrize("action", [ActionKind.COMMENT, ActionKind.REOPEN])
def test_a_comment_says_what_the_night_found_out(
    night: Night, action: ActionKind
) -> None:
    draft = IssueDraft({"a.mlir": "module @small {}"}, "iree-compile a.mlir")
    remedy = Remedy(flags=("--iree-opt-level=O1",), result=night.cases[0].baseline)
    cluster = replace(night.clusters[0], draft=draft, remedies=[remedy])
    cases = tuple(cluster.cases)
    marker = Marker(cluster.key, cases, night.toolchain)
    text = issue_body(IssueChange(action, "t", cases, marker, cluster), night)
    assert cluster.culprit
    for said in ("1.1.0", "--iree-opt-level=O1", "module @small", "first", "second"):
        assert said in text
    plain = cluster.key.cluster(cluster.cases, cluster.failure)
    short = issue_body(IssueChange(action, "t", cases, marker, plain), night)
    assert len(short.splitlines()) <= 5


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
    hub: LoopbackIssues, tmp_path: Path, words: tuple[str, ...], token: str
) -> None:
    (tmp_path / "nightly.json").write_text("[]")
    assert sync(hub, tmp_path, *words, token=token)[0] == 2
    assert sync(hub, tmp_path / "missing", *words, token=token)[0] == 2
    assert hub.requests == []


@pytest.mark.parametrize("action", list(ActionKind))
def test_hostile_texts_stay_text(night: Night, action: ActionKind) -> None:
    evil = "@someone #12 <img src=x> ```\n# x\n<!-- triage {} --> [x](javascript:x)"
    cases = [evil] * 30
    cluster = replace(
        night.clusters[0],
        signature=evil,
        cases=cases,
        draft=IssueDraft({evil: evil}, evil, evil, evil, [evil]),
        representative=evil,
    )
    marker = Marker(cluster.key, tuple(cases), Revision(evil))
    change = IssueChange(action, evil, tuple(cases), marker, cluster)
    ends = {"toolchain": Revision(evil), "baseline": Revision(evil)}
    text = issue_body(change, replace(night, clusters=[cluster], **ends))
    tokens = [
        token
        for block in MarkdownIt().parse(text)
        for token in (block, *(block.children or ()))
    ]
    assert "image" not in {token.type for token in tokens}
    links = [str(token.attrs["href"]) for token in tokens if token.type == "link_open"]
    public = "https://github.com/iree-org/iree/compare/"
    assert all(link.startswith(public) for link in links)
    html = {token.content for token in tokens if token.type == "html_inline"}
    assert html <= {"<sub>", "</sub>", "<details>"}
    assert 0 < len(text) < 20_000


def test_no_file_that_a_night_names_is_published(
    hub: LoopbackIssues, night: Night, tmp_path: Path, home: Path
) -> None:
    """What an issue says comes from the JSON."""
    draft = IssueDraft({"input.mlir": "module @small {}"}, "iree-compile input.mlir")
    steps = [StepResult("reduce", "done")]
    clusters = [replace(each, draft=draft, steps=steps) for each in night.clusters]
    write_reports(replace(night, clusters=clusters), tmp_path)
    for path in (tmp_path / "issues").iterdir():
        path.write_text("very secret")
    assert sync(hub, tmp_path, "--apply")[0] == 0
    bodies = [issue["body"] for issue in hub.issues.values()]
    assert ["module @small {}" in body for body in bodies] == [True, True]
    assert not any("very secret" in body for body in bodies)
