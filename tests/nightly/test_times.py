"""Slower compiles and runs: measured in turn, reported with an interval, and no failure
unless that is asked for.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tests.bisect.letters import case_named, outcome, release_refs
from tests.programs import write_program
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.cli.app import app
from triage.execution.in_turn import Pace, Ratio
from triage.model.outcome import Measured, Probe
from triage.nightly import run
from triage.nightly.result import SCHEMA, Night, TimeChange
from triage.nightly.run import case_result
from triage.report.formats import rendered
from triage.report.night import night_document, night_junit

CASE = case_named("case")
OLD, MIDDLE, NEW = release_refs(3)


@pytest.fixture
def night() -> Night:
    suspects = tuple(
        Suspect(ref.revision.name, probability=0.5) for ref in (MIDDLE, NEW)
    )
    origin = Bisection(
        CASE.name,
        BisectKind.REGRESSION,
        Answer.SUSPECTS,
        OLD.revision,
        NEW.revision,
        suspects,
    )
    times = TimeChange(
        case="case",
        function="decode",
        baseline_seconds=0.002,
        seconds=0.004,
        ratio=Ratio(2.0, 1.9, 2.1),
    )
    rows = [
        replace(times, verdict=Pace.SLOWER, bisection=origin),
        TimeChange(
            case="gpu-case",
            function="decode",
            reason="1.2.0: this machine has no device hip",
        ),
    ]
    probes = [
        Probe(CASE, ref.revision, None, outcome("P"), Measured(1.0), cached=False)
        for ref in (OLD, NEW)
    ]
    return Night(
        schema=SCHEMA,
        started="2026-01-01T00:00:00+00:00",
        toolchain=NEW.revision,
        baseline=OLD.revision,
        kind=NEW.kind,
        cases=[case_result(*probes)],
        times=rows,
    )


def test_json_has_ratio_and_interval_and_no_zero_for_what_was_not_measured(
    night: Night,
) -> None:
    answer = json.loads(rendered("json", night, night_document))
    run, missing = answer["times"]
    assert run["ratio"] == {"ratio": 2.0, "low": 1.9, "high": 2.1}
    assert run["verdict"] == "slower"
    assert (missing["verdict"], missing["ratio"], missing["seconds"]) == (
        None,
        None,
        None,
    )
    assert "no device hip" in missing["reason"]
    assert (
        run["bisection"]["status"],
        run["bisection"]["after"]["name"],
        missing["bisection"],
    ) == ("suspects", "1.2.0", None)
    assert answer["slower"] == [run]


@pytest.mark.parametrize(("asked", "tests"), [(False, 1), (True, 2)])
def test_junit_fails_what_is_slower_only_where_asked(
    night: Night, asked: bool, tests: int
) -> None:
    suite = ElementTree.fromstring(night_junit(replace(night, strict=asked)))
    assert len(list(suite.iter("testcase"))) == tests
    assert len(list(suite.iter("failure"))) == tests - 1


@pytest.mark.parametrize(("shortest", "count"), [(0.0, 1), (1000.0, 0)])
def test_a_compile_that_became_slower_is_measured_in_turn_and_reported(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    shortest: float,
    count: int,
) -> None:
    """Only where it takes long enough to matter."""
    monkeypatch.setattr(run, "LONG_COMPILE", shortest)
    for folder, turns in (("old", 1), ("new", 100_000)):
        lines = f'i=0\nwhile [ $i -lt {turns} ]; do i=$((i+1)); done\ncp "$1" "$2"\n'
        write_program(tmp_path / folder / "compile", f"#!/bin/sh\n{lines}")
    (tmp_path / "a.txt").write_text("x")
    recipe = tmp_path / "slow.yaml"
    recipe.write_text(
        "name: slow\ncompiler: command\ninput: a.txt\n"
        'command: ["{toolchain}/compile", "{input}", "{output}"]\n'
    )
    ends = ["-t", f"path:{tmp_path / 'new'}", "-b", f"path:{tmp_path / 'old'}"]
    words = ["nightly", str(recipe), *ends, "--format"]
    answer = json.loads(CliRunner().invoke(app, [*words, "json"]).stdout)
    rows = answer["slower"]
    assert [(row["case"], row["measured"]) for row in rows] == [
        ("slow", "compile")
    ] * count
    assert [row["ratio"]["low"] > 1.25 for row in rows] == [True] * count
    assert [each["slower"] for each in answer["verdict"]] == [count]
    words.insert(1, "--bisect")
    bisected = json.loads(CliRunner().invoke(app, [*words, "json"]).stdout)
    for row in bisected["slower"]:
        # it searches for a compile: only versions are missing between two folders
        assert "reports no version" in row["bisection"]["reason"]
    strict = CliRunner().invoke(app, [*words, "text", "--strict"])
    assert strict.exit_code == count
    assert ("1 is slower" in strict.stdout) == (count == 1)
