"""Shards of a nightly, joined into one report."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.conftest import Asked, Triage
from tests.nightly.test_night import night_of
from triage.model.errors import BadInput
from triage.model.outcome import Exit
from triage.model.revision import Revision
from triage.nightly import compare
from triage.nightly.history import history_of
from triage.nightly.result import Night
from triage.nightly.store import read_night
from triage.report.night import write_reports

HISTORIES = {
    "a": "PF",
    "b": "PF",
    "c": "PG",
    "d": "FF",
    "e": "PP",
    "f": "FP",
    "g": "UU",
}


def merge(*nights: Night) -> Night:
    return compare.merge(nights, lambda: history_of([], "*", {}))


def shards(count: int = 3, changed: int = 0, **values: Any) -> list[Night]:
    """Return what the shards of a nightly report, the last one first. changed: the one
    that has other values.
    """
    cases, nights = [case_named(name) for name in HISTORIES], []
    for number in range(count, 0, -1):
        part = f"{number}/{count}"
        names = [case.name for case in compare.shard(cases, part)]
        night = night_of({name: HISTORIES[name] for name in names})
        others = values if number == changed else {}
        nights.append(replace(night, shard=part, **others))
    return nights


@pytest.mark.parametrize(("lacking", "number"), [("a", 1), ("g", 1), ("f", 3)])
def test_the_order_is_that_of_the_recipes_where_a_shard_lacks_a_case(
    lacking: str, number: int
) -> None:
    cases = [case for case in shards()[-number].cases if case.case != lacking]
    merged = merge(*shards(3, number, cases=cases, stopped="interrupted"))
    expected = [name for name in HISTORIES if name != lacking]
    assert [case.case for case in merged.cases] == expected
    assert merged.not_compared == [lacking]


def test_merged_shards_are_the_night_of_one_machine() -> None:
    merged, whole = merge(*shards()), night_of(HISTORIES)
    assert (merged.compiles, merged.shard, merged.stopped) == (21, None, None)
    assert merged.changes == whole.changes
    expected = [cluster.cases for cluster in whole.clusters]
    assert [cluster.cases for cluster in merged.clusters] == expected


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([*shards(), shards()[0]], "is in two shards"),
        ([*shards()[:2], shards(2)[-1]], "is in two shards"),
        (shards(3, 2, baseline=Revision("1.0.0", "b" * 40)), "do not belong together"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    results: list[Night], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        merge(*results)


def test_what_one_shard_found_out_is_known_of_the_failure_in_all() -> None:
    clusters = [replace(cluster, culprit=None) for cluster in shards()[-1].clusters]
    [cluster, *_] = merge(*shards(3, 1, clusters=clusters)).clusters
    assert cluster.cases == ["a", "b"]
    assert cluster.culprit


def test_a_culprit_holds_for_the_cases_that_each_shard_bisected() -> None:
    parts = [
        replace(night, clusters=[replace(item, representative=item.cases[0])])
        for night in shards()
        for item in night.clusters[:1]
    ]
    [cluster, *_] = merge(*parts).clusters
    assert (cluster.cases, cluster.bisected_cases) == (["a", "b"], ["a", "b"])


def test_failures_with_one_signature_and_two_culprits_stay_two() -> None:
    [first, *others] = shards()[1].clusters
    assert first.culprit
    assert first.culprit.broke
    moved = replace(first.culprit.broke, after=Revision("1.0.5"))
    other = replace(first.culprit, broke=moved)
    clusters = [replace(first, culprit=other), *others]
    first, second, *_ = merge(*shards(3, 2, clusters=clusters)).clusters
    assert (first.key, first.cases, second.cases) == (second.key, ["a"], ["b"])
    assert first.id != second.id


def test_a_shard_without_a_case_joins_the_others() -> None:
    whole, commit = night_of(HISTORIES), Revision("1.1.0", "a" * 40)
    tested = replace(whole, shard="2/2", toolchain=commit)
    none = replace(whole, shard="1/2", compiler=None, cases=[], planned=[], clusters=[])
    merged = merge(none, tested)
    assert (len(merged.cases), merged.toolchain) == (len(HISTORIES), commit)


@pytest.fixture
def folders(tmp_path: Path, home: Path) -> list[Path]:
    """Folders of three shards, as a job downloads them: not where they were written."""
    folders = []
    for night in shards():
        written = tmp_path / "written" / str(night.shard)[0]
        clusters = []
        for cluster in night.clusters:
            path = f"reproducers/{cluster.cases[0]}"
            (written / path).mkdir(parents=True)
            (written / path / "README.md").write_text(path)
            clusters.append(replace(cluster, reproducer=path))
        write_reports(replace(night, clusters=clusters), written)
        folders.append(written.rename(tmp_path / f"downloaded-{written.name}"))
    return folders


def test_the_command_joins_reports_and_reproducers(
    folders: list[Path], workplace: Path, asked: Asked
) -> None:
    asked("nightly", "merge", *folders, "--out", "out", code=1)
    night, out = read_night(workplace / "out"), workplace / "out"
    assert [case.case for case in night.cases] == list(HISTORIES)
    paths = ["reproducers/a", "reproducers/c"]
    assert [cluster.reproducer for cluster in night.clusters] == paths
    for path in paths:
        assert (out / path / "README.md").read_text() == path


def test_the_command_reports_a_missing_shard_and_refuses_the_folder_of_one(
    folders: list[Path], triage: Triage
) -> None:
    *some, last = folders
    partial = triage("nightly", "merge", *some)
    assert partial.returncode == 1
    assert "2 of 3 shards are there" in partial.stdout
    passing = replace(night_of({"e": "PP"}), shard="1/2")
    assert (passing.exit, merge(passing).exit) == (Exit.OK, Exit.INCONCLUSIVE)
    assert triage("nightly", "merge", *folders, "--out", last).returncode == 2
    assert read_night(last).shard == "1/3"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_shard_with_a_link_or_a_pipe_writes_nothing(
    folders: list[Path], tmp_path: Path, triage: Triage, kind: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    if kind == "link":
        (folders[0] / "logs").symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(folders[0] / "logs")
    (folders[1] / "logs").mkdir()
    (folders[1] / "logs" / "a.log").write_text("text")
    assert triage("nightly", "merge", *folders, "--out", "out").returncode == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []
