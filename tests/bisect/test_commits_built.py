"""Commit bisects whose compilers are really built: by the project's own commands, or by a script."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bisect.driving import BUILD, CULPRIT, answered, counted, is_culprit, words
from tests.bisect.letters import HistoryRunner, case_named
from tests.bisect.small_compiler import Fate, SmallCompiler, begin
from tests.conftest import Triage
from tests.git_history.test_checkout import snapshot
from triage.bisect.plan import BisectRequest


def test_commits_built_from_source(
    misleading: SmallCompiler, recipe: Path, project: Callable[[str], Path], triage: Triage, home: Path, calls: Path
) -> None:
    before = snapshot(misleading.path)
    found = answered(triage(*words(misleading, recipe, project(BUILD), "--jobs", "2")))
    assert snapshot(misleading.path) == before
    assert is_culprit(found, misleading)
    assert found["probes"] <= 24
    for one in found["untestable"]:
        at = misleading.shas.index(one["revision"]["commit"])
        assert misleading.fates[at] is Fate.BROKEN
        assert "does not build" in one["reason"]
        log = Path(one["reason"].rpartition("(log: ")[2].rstrip(")"))
        assert "redefinition of" in log.read_text()
    for one in found["other_failures"]:
        assert misleading.fates[misleading.shas.index(one["revision"]["commit"])] in (Fate.OTHER, Fate.CRASH)
    built = counted(calls, "build")
    assert 0 < found["obtained"]["builds"] <= len(built)
    assert found["halving_probes"] == math.ceil(math.log2(len(misleading.shas) - 1))
    assert max(built.values()) <= 2  # what fails in a used build folder is tried again in an empty one
    # All of it is known now: not one build, and compiles of the pair alone, which is always confirmed.
    calls.unlink()
    again = answered(triage(*words(misleading, recipe, project(BUILD))))
    assert is_culprit(again, misleading)
    assert again["obtained"] == {}
    assert not counted(calls, "build")
    assert set(counted(calls)) == {misleading.shas[CULPRIT - 1], misleading.sha, misleading.shas[-1]}


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_script_that_builds(
    misleading: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(misleading.path))
    found = answered(triage(*words(misleading, recipe, command, "--jobs", str(jobs))))
    assert is_culprit(found, misleading)
    if (
        jobs == 1
    ):  # the ends, ceil(log2 239) + 1 between, the pair three times again, the failing end six times, and what said nothing
        assert found["probes"] <= 2 + 9 + 6 + 6 + len(found["untestable"]) + len(found["other_failures"])
    else:
        assert found["rounds"] <= 10


@pytest.mark.parametrize("fate", [Fate.OTHER, Fate.CRASH])
def test_a_skipped_commit_right_before_the_culprit_stays_a_suspect(
    tmp_path: Path, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch, fate: Fate
) -> None:
    one = begin(tmp_path / "before", [Fate.SOUND] * 5 + [fate] + [Fate.SOUND] * 6, 6)
    monkeypatch.setenv("SMALL_REPO", str(one.path))
    found = answered(triage(*words(one, recipe, command, last=11)), status=3)
    assert {each["commit"] for each in found["suspects"]} == {one.shas[5], one.sha}


def test_the_bisected_failure_is_named_with_a_hint_where_the_recipe_expects_another(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    recipe.write_text(recipe.read_text() + "expect:\n  - {failure: shared-memory-overflow}\n")
    asked = words(small, recipe, command, first=108, last=129)  # the newest of them fails to legalize an operation
    done = triage(*asked)
    found = answered(done, status=3)
    assert found["failure"]["class"] == "legalization"
    assert "legalization: failed to legalize operation" in done.stderr
    assert "shared-memory-overflow" in found["hint"]
    reports = (triage(*asked, "--format", "text").stdout, triage(*asked, "-f", "markdown").stdout)
    assert all(found["hint"] in " ".join(text.split()) for text in (done.stderr, *reports))
    expected = triage(*words(small, recipe, command, first=141, last=159))
    assert is_culprit(answered(expected), small)
    assert found["hint"] not in expected.stderr
    assert json.loads(expected.stdout)["hint"] is None


def test_an_end_whose_compiler_cannot_be_obtained_is_the_environments_fault(
    small: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    command: Path,
    triage: Triage,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    found = answered(triage(*words(small, recipe, command, first=25)), status=4)
    assert found["status"] == "inconclusive"
    assert small.shas[25][:10] in found["reason"]
    gone = project("command:\n  run: ./no-such-script.sh\n")
    found = answered(triage(*words(small, recipe, gone, first=100)), status=4)
    assert "cannot be run" in found["reason"]


@pytest.mark.parametrize(("code", "most"), [(126, 3), (1, 7)])
def test_an_environment_that_builds_nothing_ends_the_search_at_once(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    most: int,
) -> None:
    """126: the script cannot be run. 1: it has no compiler, with the same error for every commit."""
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    script = command.parent / "toolchain.sh"
    ends = f"{small.shas[0]}|{small.shas[-1]}"
    script.write_text(script.read_text().replace("set -e\n", f'set -e\ncase "$1" in {ends}) ;; *) exit {code} ;; esac\n'))
    done = triage(*words(small, recipe, command, "--jobs", "1"))
    found = answered(done, status=4)
    assert (found["status"], found["suspects"]) == ("inconclusive", [])
    assert found["probes"] <= most
    lines = [line for line in done.stderr.splitlines() if "suspects left" in line]
    assert len(lines) == len(set(lines))


def test_a_dry_run_counts_commits_builds_and_time(
    small: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    triage: Triage,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = answered(triage(*words(small, recipe, project(BUILD), "--dry-run")))
    assert found["remark"] == "239 commits, about 8 builds, about 8 h"
    assert found["probes"] == []


def test_nothing_is_built_unless_the_project_file_or_build_says_so(
    small: SmallCompiler, project: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    request = BisectRequest(HistoryRunner({"case": "PF"}), case_named("case"), small.path)
    assert request.project.build is None
    assert replace(request, build=True).project.build is not None
    project(BUILD)
    assert replace(request).project.build is not None


@pytest.mark.slow
def test_a_repository_on_a_read_only_file_system_is_bisected(
    misleading: SmallCompiler, recipe: Path, project: Callable[[str], Path], home: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", "from triage.cli import main; main()"]
    asked = [*program, *words(misleading, recipe, project(BUILD), first=141, last=159)]
    mounts = f"mount --bind {misleading.path} {misleading.path} && mount -o remount,bind,ro {misleading.path}"
    inside = ["unshare", "--mount", "sh", "-c", f'{mounts} || exit 77; touch {misleading.path}/x && exit 78; exec "$@"', "sh"]
    done = subprocess.run([*inside, *asked], capture_output=True, text=True, check=False, cwd=tmp_path)
    if done.returncode in (1, 77) and not done.stdout:
        pytest.skip("this machine allows no mounts")
    assert is_culprit(answered(done), misleading)
