"""Other questions about commits: led by a person, ranked before a compile."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bisect.driving import answered
from tests.bisect.tiny_compiler import repository, write_case
from tests.conftest import Triage

BROKE, COUNT = 17, 24


def test_a_person_leads_and_resumes_and_suspects_know_the_failure(
    triage: Triage, workplace: Path, home: Path, tmp_path: Path
) -> None:
    shas = repository("P" * BROKE + "F" * (COUNT - BROKE), tmp_path / "clone")
    write_case(workplace)
    ends = ["--good", f"commit:{shas[0]}", "--bad", f"commit:{shas[-1]}"]
    words = ["r.yaml", "--repo", tmp_path / "clone", *ends, "--format", "json"]
    led = ["bisect", *words, "--jobs", "1", "--interactive"]
    done = triage(*led, input="\nskip\nwhy\nnothing\nquit\n")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["command"].endswith("--resume")
    assert "the culprit is this one or older with" in done.stderr
    assert done.stderr.count("undo    remove the last verdict") == 2
    done = triage(*led, "--resume", input="\n" * 30)
    assert "resumed: 2 verdicts" in done.stderr
    found = answered(done)
    assert (found["status"], found["confirmed"]) == ("culprit", True)
    assert found["after"]["commit"] == shas[BROKE]
    built = set((home / "toolchains").iterdir())
    ranked = answered(triage("suspects", *words))["suspects"]
    assert {one["commit"] for one in ranked} == set(shas[1:])
    assert all(len(one["reasons"]) <= 2 for one in ranked)
    assert set((home / "toolchains").iterdir()) == built
