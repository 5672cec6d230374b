"""Bisects of a compiler that is really built, driven as a user drives them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, Fate, SmallCompiler, begin, compile_commit, wheel_of
from tests.conftest import Triage
from tests.timeline.history import ENV
from tests.toolchains.sources.loopback_github import TOKEN, archive, serve_github

COUNT = 240
CULPRIT = 151
PROJECT = "name: small\ncompiler: iree\nrepository: https://github.com/iree-org/iree\n"
BUILD = """build:
  submodules: false
  configure: cmake -S "$TRIAGE_SOURCE" -B "$TRIAGE_BUILD" -DCMAKE_BUILD_TYPE=Debug -DCOMMIT="$TRIAGE_COMMIT"
  commands:
    - echo "$TRIAGE_COMMIT build" >> "${TRIAGE_TEST_CALLS:-/dev/null}"
    - cmake --build "$TRIAGE_BUILD" --parallel "$TRIAGE_JOBS"
    - cmake --install "$TRIAGE_BUILD" --prefix "$TRIAGE_OUT"
"""
SCRIPT = """#!/bin/sh
set -e
out="$(dirname "$0")/made/$1"
new="$out.$$"
echo "$1 build" >> "${TRIAGE_TEST_CALLS:-/dev/null}"
mkdir -p "$new/tools" "$new/source"
git -C "$SMALL_REPO" archive "$1" | tar -x -C "$new/source"
cc -O0 "-DCOMMIT=\\"$1\\"" -o "$new/tools/iree-compile" $(find "$new/source" -name "*.c")
mv -T "$new" "$out" || test -d "$out"
echo "$out"
"""


def fates(**special: range | tuple[int, ...]) -> list[Fate]:
    found = [Fate.SOUND] * COUNT
    for name, numbers in special.items():
        for number in numbers:
            found[number] = Fate[name]
    return found


MIXED = fates(
    BROKEN=(*range(20, 40), *range(74, 80), *range(112, 126), 148, *range(160, 166)),
    OTHER=(*range(126, 134), 155, 200),
    CRASH=(140,),
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """240 commits. Around the culprit all is well; a fifth of the rest does not build, fails otherwise or crashes."""
    return begin(tmp_path_factory.mktemp("small") / "repo", MIXED, CULPRIT)


@pytest.fixture(scope="module")
def misleading(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """The same, but another commit looks like the culprit, so that the search has to go a long way."""
    return begin(tmp_path_factory.mktemp("misleading") / "repo", MIXED, CULPRIT, suspicious=180)


@pytest.fixture(scope="module")
def hemmed(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """The same, but the three commits before the culprit and the one after it do not build."""
    given = fates(BROKEN=(*range(CULPRIT - 3, CULPRIT), CULPRIT + 1), OTHER=(CULPRIT - 4,))
    return begin(tmp_path_factory.mktemp("hemmed") / "repo", given, CULPRIT)


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that compilers and builds append to."""
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    return tmp_path / "calls"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "m.mlir").write_text(PROGRAM)
    (tmp_path / "attention.yaml").write_text(RECIPE)
    return tmp_path / "attention.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    def write(sources: str) -> Path:
        (tmp_path / "triage.yaml").write_text(PROJECT + sources)
        return tmp_path / "triage.yaml"

    return write


@pytest.fixture
def command(tmp_path: Path, project: Callable[[str], Path]) -> Path:
    """A project whose compilers come from a script that builds with `cc` alone. What it made appears whole, for a script
    goes on when the one that called it is killed.
    """
    script = tmp_path / "toolchain.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return project(f"command:\n  run: {script}\n")


def words(small: SmallCompiler, recipe: Path, project: Path, *more: str, first: int = 0, last: int = COUNT - 1) -> list[str]:
    ends = ["--good", f"commit:{small.shas[first]}", "--bad", f"commit:{small.shas[last]}"]
    return ["bisect", str(recipe), "--repo", str(small.path), "--project", str(project), *ends, "--format", "json", *more]


def answered(done: subprocess.CompletedProcess[str], *, status: int = 0) -> dict[str, Any]:
    assert done.returncode == status, done.stderr + done.stdout
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def is_culprit(found: dict[str, Any], small: SmallCompiler) -> bool:
    assert found["status"] == "culprit", found
    assert found["confirmed"]
    assert found["before"]["commit"] == small.shas[small.culprit - 1]
    assert found["after"]["commit"] == small.sha
    [suspect] = found["suspects"]
    assert suspect["pull_request"] == 1000 + small.culprit
    assert found["failure"]["class"] == "shared-memory-overflow"
    return bool(suspect["commit"] == small.sha)


def counted(calls: Path, what: str = "main") -> Counter[str]:
    """How often each commit's compiler ran."""
    lines = (line.split() for line in calls.read_text().splitlines()) if calls.exists() else ()
    return Counter(sha for sha, said in lines if said == what)


def test_commits_built_from_source(
    misleading: SmallCompiler, recipe: Path, project: Callable[[str], Path], triage: Triage, home: Path, calls: Path
) -> None:
    found = answered(triage(*words(misleading, recipe, project(BUILD), "--jobs", "2")))
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
    assert max(built.values()) <= 2  # what fails in a used build folder is tried again in an empty one
    # All of it is known now: not one build, and compiles of the pair alone, which is always confirmed.
    calls.unlink()
    assert is_culprit(answered(triage(*words(misleading, recipe, project(BUILD)))), misleading)
    assert not counted(calls, "build")
    assert set(counted(calls)) == {misleading.shas[CULPRIT - 1], misleading.sha}


def test_neighbours_that_do_not_build_leave_suspects(
    hemmed: SmallCompiler, recipe: Path, project: Callable[[str], Path], triage: Triage, home: Path
) -> None:
    found = answered(triage(*words(hemmed, recipe, project(BUILD), first=100, last=199)), status=3)
    assert found["status"] == "suspects"
    assert found["before"]["commit"] == hemmed.shas[CULPRIT - 5]
    assert found["after"]["commit"] == hemmed.sha
    assert {one["commit"] for one in found["suspects"]} == set(hemmed.shas[CULPRIT - 4 : CULPRIT + 1])
    assert [one["revision"]["commit"] for one in found["other_failures"]] == [hemmed.shas[CULPRIT - 4]]


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
    if jobs == 1:  # the ends, ceil(log2 239) + 1 of the places between, the pair again, and what said nothing
        assert found["probes"] <= 2 + 9 + 2 + len(found["untestable"]) + len(found["other_failures"])
    else:
        assert found["rounds"] <= 10


@pytest.mark.parametrize("fate", [Fate.OTHER, Fate.CRASH])
def test_what_says_nothing_right_before_the_culprit_stays_a_suspect(
    tmp_path: Path, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch, fate: Fate
) -> None:
    one = begin(tmp_path / "before", [Fate.SOUND] * 5 + [fate] + [Fate.SOUND] * 6, 6)
    monkeypatch.setenv("SMALL_REPO", str(one.path))
    found = answered(triage(*words(one, recipe, command, last=11)), status=3)
    assert {each["commit"] for each in found["suspects"]} == {one.shas[5], one.sha}


def test_what_says_nothing_behind_the_culprit_does_not_clear_it(
    tmp_path: Path, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begin(tmp_path / "behind", [Fate.SOUND] * 7 + [Fate.BROKEN, Fate.OTHER, Fate.CRASH] * 2 + [Fate.SOUND], 6)
    monkeypatch.setenv("SMALL_REPO", str(one.path))
    assert is_culprit(answered(triage(*words(one, recipe, command, last=13))), one)


FIRST, LAST = 141, 168
EXPIRED = frozenset({143, 146, 147, 157})
CORRUPT = 145
RUNNING = 154


def test_artifacts_of_commits(
    small: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    triage: Triage,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = "distribution: iree-base-compiler\nartifacts:\n  workflow: pkgci.yml\n"
    sources += '  artifact: linux_x86_64_release_packages\n  wheel: "iree_base_compiler-*.whl"\n  branch: main\n'
    wheels = {at: wheel for at in range(FIRST, LAST + 1) if (wheel := artifact(small, at, tmp_path))}
    for name, gone in (("all", frozenset()), ("neighbours", frozenset({CULPRIT - 1, CULPRIT + 1})), ("it", {CULPRIT})):
        monkeypatch.setenv("TRIAGE_HOME", str(home / name))
        with serve_github() as github:
            monkeypatch.setenv("GITHUB_API_URL", github.url)
            monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
            for at in range(FIRST, LAST + 1):
                day = f"2026-01-{1 + at // 24:02}T{at % 24:02}:05:00Z"
                if at == RUNNING:
                    github.run(small.shas[at], day, status="in_progress", conclusion=None)
                elif at not in wheels:
                    github.run(small.shas[at], day, conclusion="failure")
                else:
                    data = b"PK\x03\x04 cut off" if at == CORRUPT else wheels[at]
                    github.run(small.shas[at], day, data, expired=at in EXPIRED or at in gone)
            github.refusals = [(429, {"Retry-After": "0"})]
            done = triage(*words(small, recipe, project(sources), first=FIRST, last=LAST))
            reasons = {one["revision"]["commit"]: one["reason"] for one in json.loads(done.stdout)["untestable"]}
            for at, reason in ((small.shas.index(sha), reason) for sha, reason in reasons.items()):
                if at in EXPIRED or at in gone:
                    assert "expired" in reason
                elif at == RUNNING:
                    assert "is not over (in progress)" in reason
                elif at == CORRUPT:
                    assert "damaged" in reason
                else:
                    assert "ended as failure" in reason
            if name == "all":
                assert is_culprit(answered(done), small)
            else:
                found = answered(done, status=3)
                named = [one["commit"] for one in found["suspects"]]
                assert small.sha in named
                assert len(named) == 2
                assert found["status"] == "suspects"
            assert github.asked["zip"] <= 12


def artifact(small: SmallCompiler, at: int, folder: Path) -> bytes | None:
    program = compile_commit(small, small.shas[at], folder / "compiled" / str(at))
    if program is None:
        return None
    return archive(wheel_of(program, small.shas[at]))


@pytest.mark.parametrize("first, last", [(141, 159), pytest.param(100, 199, marks=pytest.mark.slow)])
def test_killed_at_every_step(
    misleading: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    home: Path,
    calls: Path,
    tmp_path: Path,
    first: int,
    last: int,
) -> None:
    asked = [sys.executable, "-c", "from triage.cli import main; main()"]
    asked += words(misleading, recipe, project(BUILD), "--jobs", "1", first=first, last=last)
    pair = {misleading.shas[CULPRIT - 1], misleading.sha}
    known: set[str] = set()
    whole: set[str] = set()
    calls.touch()
    for kills in range(60):
        before = len(calls.read_text().splitlines())
        begun = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        # Another moment each time: some steps later, and a little after what was seen of it.
        while begun.poll() is None and len(calls.read_text().splitlines()) <= before + kills % 3:
            time.sleep(0.003)
        if begun.poll() is None:
            time.sleep(0.015 * (kills % 4))
            begun.send_signal(signal.SIGKILL)
        stdout, stderr = begun.communicate()
        done = [line.split() for line in calls.read_text().splitlines()[before:]]
        assert not [sha for sha, what in done if what == "main" and sha[:10] in known and sha not in pair]
        assert not [sha for sha, what in done if what == "build" and sha in whole]
        if begun.returncode != -signal.SIGKILL:
            break
        known, whole = probed(home), built(home, misleading)
    assert begun.returncode == 0, stderr
    assert kills >= 8
    assert len(known) >= 5
    assert {sha[:10] for sha in whole} >= known
    assert is_culprit(json.loads(stdout), misleading)


def probed(home: Path) -> set[str]:
    """The commits whose outcome is on disk, in short."""
    if not (home / "evidence.db").exists():
        return set()
    with closing(sqlite3.connect(home / "evidence.db")) as store:
        try:
            return {name for (name,) in store.execute("SELECT toolchain FROM probes")}
        except sqlite3.OperationalError:
            return set()


def built(home: Path, small: SmallCompiler) -> set[str]:
    """The commits whose compiler is kept whole."""
    short = {sha[:16]: sha for sha in small.shas}
    return {short[path.name.split("-")[2]] for path in (home / "toolchains").glob("build-small-*") if path.is_dir()}


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
    assert "taken back: " in done.stderr
    assert f"next: {near[:10]}" in done.stderr
    assert f"good  {small.shas[101][:10]}  person" in done.stderr
    assert "'nothing' is none of the 100 places" in done.stderr
    first = counted(calls)
    assert first[near] == 1
    calls.unlink()
    done = typed(triage, "\n\nauto\n", [*asked, "--resume"])
    assert "3 verdicts of the journal are used again" in done.stderr
    assert is_culprit(answered(done), small)
    again = counted(calls)
    assert not {sha for sha in again if sha in first} - {small.shas[CULPRIT - 1], small.sha}
    [journal] = (home / "bisects").glob("*.jsonl")
    assert '"person"' in journal.read_text()
    # Enter all the way, with everything known; what was said in a bisect that is not resumed is forgotten.
    assert is_culprit(answered(typed(triage, "\n" * 30, asked)), small)
    assert '"person"' not in journal.read_text()


def test_verdicts_go_to_git_and_come_back(
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


def test_a_log_that_errs_convicts_nobody(
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


def test_suspects_are_ranked_without_a_compile(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, calls: Path, tmp_path: Path
) -> None:
    log = tmp_path / "failed.log"
    log.write_text("m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n")
    ends = ("--good", f"commit:{small.shas[0]}", "--bad", small.shas[-1], "--repo", small.path, "--project", command)
    for source in (recipe, log):
        done = triage("suspects", source, *ends, "--backend", "rocm", "--format", "json")
        ranked = [one["commit"] for one in answered(done)["suspects"]]
        assert small.sha in ranked
    assert ranked[0] == small.sha
    assert not calls.exists()
    assert not (tmp_path / "made").exists()
