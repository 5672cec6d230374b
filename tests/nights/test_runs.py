"""Nightly runs of a compiler of a few lines: what they tell apart, and a week of them as
a release manager has it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Asked, Triage
from tests.fake_releases import (
    environment,
    fake_releases,
    install,
    write_case,
    write_project,
)
from tests.nightly.test_night import junit_results
from triage.execution.engine import Engine
from triage.execution.task import Task


@dataclass
class Nightly:
    """Runs nightlies of the recipes in `cases` against 1.0.0, with reports in `out`."""

    triage: Triage
    folder: Path
    codes: list[int] = field(default_factory=list)

    def write(self, name: str, *words: str) -> Path:
        return write_case(self.folder / "cases", name, *words)

    def run(self, new: int, *words: object) -> str:
        """Return what a nightly of 1.`new`.0 prints."""
        ends = ("-t", f"1.{new}.0", "-b", "1.0.0")
        done = self.triage("nightly", "cases", *ends, "--out", "out", *words)
        self.codes.append(done.returncode)
        return done.stdout + done.stderr

    @property
    def report(self) -> Any:
        return json.loads((self.folder / "out" / "nightly.json").read_text())

    @property
    def changes(self) -> dict[str, str]:
        return {case["case"]: case["change"] for case in self.report["cases"]}

    @property
    def junit(self) -> dict[str, str]:
        return junit_results((self.folder / "out" / "nightly.xml").read_text())


@pytest.fixture
def nightly(with_releases: None, triage: Triage, workplace: Path) -> Nightly:
    return Nightly(triage, workplace)


@pytest.mark.parametrize("newer", [False, True])
def test_an_edited_input_is_no_change_of_the_compiler(
    nightly: Nightly, asked: Asked, workplace: Path, newer: bool
) -> None:
    for edit in range(4):
        # passes and fails in turn
        nightly.write("edited", *(("breaks-0",) if edit % 2 else ()))
        nightly.run(edit + 1 if newer else 1)
    shown = asked("show", "edited")
    assert shown["flaky_changes"] == 0
    assert shown["runs"][0]["is_edited"]
    for life in shown["failures"]:
        assert (life["before"], life["is_edited"]) == (None, True)
    asked("site")
    index = (workplace / "public" / "index.html").read_text()
    assert "<h1>Nothing new fails" in index
    assert "newly fail" not in index


def test_an_expectation_is_no_input(nightly: Nightly) -> None:
    case = nightly.write("edited", "breaks-1")
    inputs = []
    for new, line in enumerate(("", "flags: [-v]\n", "expect: [{failure: x}]\n"), 1):
        case.write_text(case.read_text() + line)
        nightly.run(new)
        inputs.append(nightly.report["cases"][0]["input"])
    assert inputs[0] != inputs[1] == inputs[2]


def test_a_failure_that_the_baseline_cannot_read_is_red_in_one_night(
    nightly: Nightly,
) -> None:
    nightly.write("crashes", "read-from-1", "breaks-1")
    assert "::error" in nightly.run(1, "--github")
    assert nightly.changes == {"crashes": "new-untested"}
    nightly.run(1)
    nightly.run(2)
    assert (nightly.changes, nightly.report["clusters"]) == ({"crashes": "known"}, [])
    assert nightly.junit == {"crashes": "known"}
    nightly.write("crashes", "read-from-1", "breaks-4")
    nightly.run(3)
    assert nightly.changes == {"crashes": "untestable"}
    nightly.run(4)
    assert nightly.changes == {"crashes": "new-untested"}
    assert nightly.codes == [1, 1, 0, 3, 1]


def test_an_internal_error_ends_one_case(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Engine.make

    def raising(engine: Engine, task: Task, *values: Any) -> object:
        if task.case.name == "broken":
            raise ZeroDivisionError
        return make(engine, task, *values)

    monkeypatch.setattr(Engine, "make", raising)
    for name in ("broken", "steady"):
        nightly.write(name)
    assert "ZeroDivisionError" in nightly.run(1)
    assert nightly.codes == [4]
    assert nightly.changes == {"broken": "untestable", "steady": "passing"}
    assert "ZeroDivisionError" in nightly.report["cases"][0]["reason"]
    assert not nightly.report["partial"]
    assert nightly.junit == {"broken": "untestable", "steady": "passed"}


def test_a_local_build_is_bisected_among_nightlies_by_the_version_that_it_reports(
    tmp_path: Path, workplace: Path, asked: Asked
) -> None:
    # with the nightly of the third
    write_case(workplace / "cases", "breaks", "breaks-4")
    build = install(tmp_path / "built", 5, "1.2.0rc20260104")
    ends = ("-t", f"path:{build}", "-b", "1.0.0")
    with fake_releases(tmp_path / "releases", count=2, nightlies=4) as releases:
        write_project(workplace, releases)
        served = environment(releases, tmp_path / "home")
        night = asked("nightly", "cases", *ends, "--bisect", code=1, env=served)
    [cluster] = night["clusters"]
    names = [cluster["culprit"][end]["name"] for end in ("before", "after")]
    assert names == ["1.2.0rc20260102", "1.2.0rc20260103"]


def test_nights_of_five_releases(
    nightly: Nightly, triage: Triage, asked: Asked, workplace: Path
) -> None:
    cases = {
        "steady": (),
        "early": ("differs-2", "fixed-4"),
        "late": ("breaks-5",),
        "also-late": ("breaks-5",),
        "newer": ("read-from-3", "breaks-3"),
        "edited": (),
    }
    for name, words in cases.items():
        nightly.write(name, *words)
    for new in (1, 2, 3):
        nightly.run(new, "-b", f"1.{new - 1}.0")
    nightly.write("edited", "breaks-0")
    for part in (1, 2):
        nightly.run(4, "-b", "1.3.0", "--shard", f"{part}/2", "--out", f"shard-{part}")
    assert triage("nightly", "merge", "shard-1", "shard-2").returncode == 0
    nightly.run(5, "-b", "1.4.0")
    assert nightly.codes == [0, 1, 1, 0, 0, 1]
    assert len(asked("nights", "list")["nights"]) == 5
    merged = asked("nights", "show", "4")
    assert [case["case"] for case in merged["cases"]] == sorted(cases)

    shown = {name: asked("show", name) for name in cases}
    states = {
        name: [
            f"{failure['state']} since {failure['came']['toolchain']['name']}"
            for failure in case["failures"]
        ]
        for name, case in shown.items()
    }
    assert states == {
        "steady": [],
        "early": ["gone since 1.2.0"],
        "late": ["open since 1.5.0"],
        "also-late": ["open since 1.5.0"],
        "newer": ["open since 1.3.0"],
        # nothing tells since which compiler it has the failure of `newer`
        "edited": ["open since 1.3.0"],
    }
    assert shown["edited"]["runs"][0]["is_edited"]

    asked("site")
    index = (workplace / "public" / "index.html").read_text()
    assert "<h1><em>1 new failure</em> in IREE 1.5.0</h1>" in index
    rows = re.split(r"<li>\s*<div><h3>", index.partition('class="after"')[0])[1:]
    chip = '<span class="chip new">new</span>'
    assert [chip in row for row in rows] == [True, False]
    cells = re.findall(r'<a href="nights/(\d+)\.html" class="bad"', index)
    assert cells == ["2", "3", "5"]
