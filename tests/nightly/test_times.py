"""Slower compiles and runs: measured in turn, reported with an interval, and no failure
unless that is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import release_refs
from tests.conftest import Triage
from tests.nights.documents import night as night_of
from tests.programs import write_program
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.in_turn import Pace, Ratio
from triage.nightly import run
from triage.nightly.result import Night, TimeChange
from triage.nightly.store import read_night
from triage.report.night import night_junit


@pytest.fixture
def night() -> Night:
    ends = [ref.revision for ref in release_refs(2)]
    origin = Bisection("a", BisectKind.REGRESSION, Answer.SUSPECTS, *ends)
    slower = TimeChange(
        case="a",
        function="decode",
        baseline_seconds=0.002,
        seconds=0.004,
        ratio=Ratio(2.0, 1.9, 2.1),
        verdict=Pace.SLOWER,
        bisection=origin,
    )
    reason = "1.2.0: this machine has no device hip"
    missing = TimeChange(case="b", function="decode", reason=reason)
    return night_of(1, {"a": "P"}, times=[slower, missing])


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
    triage: Triage,
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
    command = '["{toolchain}/compile", "{input}", "{output}"]'
    recipe = tmp_path / "slow.yaml"
    recipe.write_text(
        f"name: slow\ncompiler: command\ninput: a.txt\ncommand: {command}\n"
    )
    ends = ("-t", f"path:{tmp_path / 'new'}", "-b", f"path:{tmp_path / 'old'}")
    out = tmp_path / "out"
    strict = triage("nightly", recipe, *ends, "--bisect", "--strict", "--out", out)
    assert strict.returncode == count
    assert ("1 slower" in strict.stdout) == (count == 1)
    night = read_night(out)
    assert [verdict.slower for verdict in night.verdict] == [count]
    assert len(night.slower) == count
    for row in night.slower:
        assert (row.case, row.measured) == ("slow", "compile")
        assert row.ratio
        assert row.ratio.low > 1.25
        # it searches for a compile: only versions are missing between two folders
        assert row.bisection
        assert "reports no version" in str(row.bisection.reason)
