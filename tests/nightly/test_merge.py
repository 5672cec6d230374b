"""Shards of a nightly, joined into one report."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.conftest import Triage
from tests.nightly.test_night import night_of
from triage.model.errors import BadInput
from triage.model.outcome import Exit
from triage.model.revision import Revision
from triage.nightly import compare
from triage.nightly.compare import shard
from triage.nightly.history import history_of
from triage.nightly.result import Night
from triage.nightly.store import read_night
from triage.report.formats import rendered
from triage.report.night import night_document, partial_text

HISTORIES = {
    "a": "PF",
    "b": "PF",
    "c": "PG",
    "d": "FF",
    "e": "PP",
    "f": "FP",
    "g": "UU",
}
CASES = [case_named(name) for name in HISTORIES]


def merge(nights: list[Night]) -> Night:
    return compare.merge(nights, lambda: history_of([]))


def shards(count: int = 3) -> list[Night]:
    """Return what the shards of a nightly report, the last one first."""
    results = []
    for number in range(count, 0, -1):
        names = [case.name for case in shard(CASES, f"{number}/{count}")]
        night = night_of({name: HISTORIES[name] for name in names})
        results.append(replace(night, shard=f"{number}/{count}"))
    return results


@pytest.mark.parametrize("lacking", ["a", "g"])
def test_the_order_is_that_of_the_recipes_where_a_shard_lacks_a_case(
    lacking: str,
) -> None:
    def without(night: Night) -> Night:
        left = [case for case in night.cases if case.case != lacking]
        if len(left) == len(night.cases):
            return night
        return replace(night, cases=left, stopped="interrupted")

    merged = merge(list(map(without, shards())))
    expected = [name for name in HISTORIES if name != lacking]
    assert [case.case for case in merged.cases] == expected
    assert merged.not_compared == [lacking]
    assert "1 of 7 cases not compared" in partial_text(merged)


def test_merged_shards_are_the_night_of_one_machine() -> None:
    merged, expected = merge(shards()), night_of(HISTORIES)
    assert (merged.compiles, merged.shard, merged.stopped) == (21, None, None)
    for night in (merged, expected):
        assert [case.case for case in night.cases] == list(HISTORIES)
    assert merged.changes == expected.changes
    assert [cluster.cases for cluster in merged.clusters] == [
        cluster.cases for cluster in expected.clusters
    ]


def change(number: int, **values: Any) -> list[Night]:
    """Return the shards where one of them has other values."""
    return [
        replace(night, **values) if night.shard == f"{number}/3" else night
        for night in shards()
    ]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([*shards(), shards()[0]], "is in two shards"),
        ([*shards(3)[:2], shards(2)[-1]], "is in two shards"),
        (change(2, baseline=Revision("1.0.0", "b" * 40)), "do not belong together"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    results: list[Night], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        merge(results)


def test_what_one_shard_found_out_is_known_of_the_failure_in_all() -> None:
    clusters = [replace(cluster, culprit=None) for cluster in shards()[-1].clusters]
    [cluster, *_] = merge(change(1, clusters=clusters)).clusters
    assert (cluster.cases, cluster.is_explained) == (["a", "b"], True)


def test_failures_with_one_signature_and_two_culprits_stay_two() -> None:
    [first, *others] = shards()[1].clusters
    assert first.culprit
    other = replace(first.culprit, after=Revision("1.0.5"))
    changed = change(2, clusters=[replace(first, culprit=other), *others])
    first, second, *_ = merge(changed).clusters
    assert (first.key, first.cases, second.cases) == (second.key, ["a"], ["b"])
    assert first.id != second.id


def test_a_shard_without_a_case_joins_the_others() -> None:
    second = replace(
        night_of(HISTORIES),
        shard="2/2",
        toolchain=Revision("1.1.0", "a" * 40),
    )
    none = {
        "cases": [],
        "planned": [],
        "clusters": [],
        "compiler": None,
        "shard": "1/2",
    }
    first = replace(second, toolchain=Revision("1.1.0"), **none)
    merged = merge([first, second])
    assert (len(merged.cases), merged.toolchain.commit) == (len(HISTORIES), "a" * 40)


@pytest.fixture
def folders(tmp_path: Path, home: Path) -> list[Path]:
    """Folders of three shards, as a job downloads them: not where they were written."""
    folders = []
    for night in shards():
        folder = tmp_path / f"downloaded-{str(night.shard)[0]}"
        clusters = []
        for cluster in night.clusters:
            path = f"reproducers/{cluster.cases[0]}"
            (folder / path).mkdir(parents=True)
            (folder / path / "README.md").write_text(path)
            clusters.append(replace(cluster, reproducer=path))
        reports = {"json": "shard/nightly.json"}
        night = replace(night, clusters=clusters, reports=reports)
        folder.mkdir(exist_ok=True)
        text = rendered("json", night, night_document)
        (folder / "nightly.json").write_text(text)
        folders.append(folder)
    return folders


def test_the_command_joins_reports_and_reproducers(
    folders: list[Path], workplace: Path, triage: Triage
) -> None:
    done = triage("nightly", "merge", *folders, "--out", "out", "--format", "json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["changes"]["regressed"] == 3
    night = read_night(workplace / "out")
    assert [case.case for case in night.cases] == list(HISTORIES)
    paths = ["reproducers/a", "reproducers/c"]
    assert [cluster.reproducer for cluster in night.clusters] == paths
    files = ["nightly.json", "nightly.md", "nightly.xml", "reproducers"]
    assert sorted(path.name for path in (workplace / "out").iterdir()) == files
    for path in paths:
        assert (workplace / "out" / path / "README.md").read_text() == path


def test_the_command_reports_a_missing_shard_and_refuses_the_folder_of_one(
    folders: list[Path], triage: Triage
) -> None:
    *some, last = folders
    partial = triage("nightly", "merge", *some)
    assert partial.returncode == 1
    assert "2 of 3 shards are there" in partial.stdout
    passing = replace(night_of({"e": "PP"}), shard="1/2")
    assert (passing.exit, merge([passing]).exit) == (Exit.OK, Exit.INCONCLUSIVE)
    assert triage("nightly", "merge", *folders, "--out", last).returncode == 2
    assert read_night(last).shard == "1/3"


@pytest.mark.parametrize("value", ['"cpu_seconds": NaN', '"metrics": {"x": 1e999'])
def test_a_shard_with_a_number_that_json_does_not_have_is_bad_input(
    folders: list[Path], triage: Triage, value: str
) -> None:
    file = folders[0] / "nightly.json"
    before = '"metrics": {' if "metrics" in value else '"cpu_seconds": 0.0'
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, value, 1))
    done = triage("nightly", "merge", *folders)
    assert done.returncode == 2
    assert "is not the JSON of a nightly" in done.stderr


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
