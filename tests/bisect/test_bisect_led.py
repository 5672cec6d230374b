"""A person leads a bisect on the command line, and git's logs go out and come in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, answered, counted, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler
from tests.conftest import Triage


def typed(triage: Triage, lines: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    return triage(*words, "--interactive", input=lines)


def test_a_person_leads(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    asked = words(small, recipe, command, "--jobs", "1", first=100, last=199)
    near = small.shas[CULPRIT - 2]
    lines = f"\nshow {small.sha}\nback\n\njump {near}\n\ngood {small.shas[101]}\nlog\njump nothing\nquit\n"
    done = typed(triage, lines, asked)
    assert done.returncode == 130, done.stderr
    assert "KernelConfig.c" in done.stderr or "FormDispatchRegions.c" in done.stderr or "ScheduleExecution.c" in done.stderr
    assert "removed: " in done.stderr
    assert f"next: {near[:10]}" in done.stderr
    assert f"good  {small.shas[101][:10]}  person" in done.stderr
    assert "'nothing' is not one of the 100 candidates" in done.stderr
    first = counted(calls)
    assert first[near] == 1
    calls.unlink()
    done = typed(triage, "\n\nauto\n", [*asked, "--resume"])
    assert "resumed: 3 verdicts" in done.stderr
    assert is_culprit(answered(done), small)
    again = counted(calls)
    assert not {sha for sha in again if sha in first} - {small.shas[CULPRIT - 1], small.sha}
    [journal] = (home / "bisects").glob("*.jsonl")
    assert '"person"' in journal.read_text()
    # Enter all the way, with everything known; what was said in a bisect that is not resumed is forgotten.
    assert is_culprit(answered(typed(triage, "\n" * 30, asked)), small)
    assert '"person"' not in journal.read_text()


def test_verdicts_are_exported_to_git_and_imported_again(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    calls: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    log = tmp_path / "bisect.log"
    asked = words(small, recipe, command, "--jobs", "1")
    assert is_culprit(answered(triage(*asked, "--export-log", str(log))), small)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(small.path), str(clone)], check=True)
    replayed = subprocess.run(["git", "bisect", "replay", str(log)], cwd=clone, check=True, capture_output=True, text=True)
    assert f"{small.sha} is the first bad commit" in replayed.stdout
    # Git's own log comes back, in another home: the pair is probed, nothing else between the ends.
    git_log = subprocess.run(["git", "bisect", "log"], cwd=clone, check=True, capture_output=True, text=True).stdout
    log.write_text(git_log)
    monkeypatch.setenv("TRIAGE_HOME", str(home / "other"))
    calls.unlink()
    assert is_culprit(answered(triage(*asked, "--import-log", str(log))), small)
    assert set(counted(calls)) == {small.shas[0], small.shas[CULPRIT - 1], small.sha, small.shas[-1]}


def test_a_wrong_log_leads_to_no_wrong_culprit(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    log = tmp_path / "wrong.log"
    wrong = CULPRIT + 2
    log.write_text(f"git bisect start\ngit bisect good {small.shas[wrong]}\ngit bisect bad {small.shas[wrong + 1]}\n")
    done = triage(*words(small, recipe, command, "--jobs", "1", "--import-log", str(log), first=141, last=170))
    found = json.loads(done.stdout)
    assert found["status"] != "culprit" or is_culprit(found, small), found
    assert small.sha in [one["commit"] for one in found["suspects"]], found
