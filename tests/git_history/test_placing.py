from __future__ import annotations

import pytest

from tests.git_history.history import History
from triage.git_history import CommitPosition, Timeline
from triage.git_history.refs import day_in
from triage.model.errors import BadInput


@pytest.fixture
def branched(history: History) -> dict[str, str]:
    """main: a b c(merge of side) d; side: s, from a; release: r1 r2, from b; other: without a common commit."""
    shas = {"a": history.commit("a")}
    history.git("switch", "--quiet", "--create", "side")
    shas["s"] = history.commit("s")
    history.git("switch", "--quiet", "main")
    shas["b"] = history.commit("b")
    history.git("switch", "--quiet", "--create", "release")
    shas["r1"], shas["r2"] = history.commit("r1"), history.commit("r2")
    history.git("tag", "--annotate", "--message=x", "v1.0")
    history.git("switch", "--quiet", "main")
    shas["c"] = history.merge("side")
    shas["d"] = history.commit("d")
    history.git("switch", "--quiet", "--orphan", "other")
    shas["o"] = history.commit("o")
    history.git("switch", "--quiet", "main")
    return shas


def test_commits_of_the_line_are_exact_by_any_name(history: History, branched: dict[str, str]) -> None:
    timeline = Timeline(history.path)
    assert timeline.place(branched["b"]) == CommitPosition(1, branched["b"])
    assert timeline.place(branched["b"][:9]) == CommitPosition(1, branched["b"])
    assert timeline.place("main") == timeline.place("HEAD") == CommitPosition(3, branched["d"])
    assert timeline.place("HEAD~1").index == 2


def test_commits_of_a_branch_are_placed_where_it_left_the_line(history: History, branched: dict[str, str]) -> None:
    timeline = Timeline(history.path)
    assert timeline.place("release") == CommitPosition(1, branched["r2"], exact=False)
    assert timeline.place("v1.0") == CommitPosition(1, branched["r2"], exact=False)
    # What a merge brought in was written on top of the commit it left from.
    assert timeline.place("side") == CommitPosition(0, branched["s"], exact=False)
    with pytest.raises(BadInput, match="no history in common"):
        timeline.place("other")


def test_a_span_leaves_the_good_end_out(history: History, branched: dict[str, str]) -> None:
    timeline = Timeline(history.path)
    span = timeline.between(branched["a"], "main")
    assert list(span.indices) == [1, 2, 3]
    assert span.good.exact
    from_release = timeline.between("v1.0", "main")
    assert list(from_release.indices) == [2, 3]
    assert not from_release.good.exact


def test_a_span_without_commits_says_why(history: History, branched: dict[str, str]) -> None:
    timeline = Timeline(history.path)
    with pytest.raises(BadInput, match=r"is newer than the bad commit .*: exchange them"):
        timeline.between("main", branched["a"])
    with pytest.raises(BadInput, match="are the same commit"):
        timeline.between("main", "HEAD")
    with pytest.raises(BadInput, match="only commits of a branch"):
        timeline.between(branched["b"], "release")


def test_tags_know_their_commits(history: History) -> None:
    sha = history.commit("one")
    history.git("tag", "iree-3.5.0rc20250604")
    history.git("tag", "-a", "-m", "x", "v3.5.0")
    history.git("tag", "-a", "-m", "x", "a-blob", history.git("hash-object", "-w", "--stdin", data=b"x"))
    timeline = Timeline(history.path)
    assert [(tag.name, tag.sha) for tag in timeline.tags()] == [
        ("iree-3.5.0rc20250604", sha),
        ("v3.5.0", sha),
    ]
    assert [tag.name for tag in timeline.tags("iree-*rc*")] == ["iree-3.5.0rc20250604"]
    assert timeline.tag("v3.5.0") is not None
    assert timeline.tag("v3.5.1") is None


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("iree-3.5.0rc20250604", "2025-06-04"),
        ("v3.5.0", None),
        ("x-20251399", None),
        ("3.0.0.post20240716052845", None),
        ("3.2.0.dev20241011+git4f2c8e1", "2024-10-11"),
    ],
)
def test_days_in_names(text: str, day: str | None) -> None:
    assert day_in(text) == day


def test_the_newest_commit_of_a_day(history: History) -> None:
    for day in ("2025-06-01", "2025-06-03", "2025-06-03", "2025-06-07"):
        history.commit(day, date=f"{day}T23:30:00-02:00")  # the next day, in UTC
    timeline = Timeline(history.path)
    assert timeline.newest_at("2025-06-02") == 0
    assert timeline.newest_at("2025-06-03") == 0
    assert timeline.newest_at("2025-06-03T23:30:00-02:00") == 2
    assert timeline.newest_at("2025-06-04") == 2
    assert timeline.newest_at("2030-01-01") == 3
    with pytest.raises(BadInput, match="no commit is as old as 2025-06-01"):
        timeline.newest_at("2025-06-01")
    with pytest.raises(BadInput, match="is not a date"):
        timeline.newest_at("last tuesday")
