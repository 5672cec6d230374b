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
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, Fate, SmallCompiler, begin, compile_commit
from tests.conftest import Triage
from tests.timeline.history import ENV
from tests.toolchains.loopback import make_wheel
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
Bisect = Callable[..., dict[str, Any]]


def fates(**special: range | tuple[int, ...]) -> list[Fate]:
    found = [Fate.SOUND] * COUNT
    for name, numbers in special.items():
        for number in numbers:
            found[number] = Fate[name]
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    """240 commits. Around the culprit all is well; a fifth of the rest does not build, fails otherwise or crashes."""
    given = fates(
        BROKEN=(*range(20, 40), *range(74, 80), *range(112, 126), 148, *range(160, 166)),
        OTHER=(*range(126, 134), 155, 200),
        CRASH=(140,),
    )
    return begin(tmp_path_factory.mktemp("small") / "repo", given, CULPRIT)


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
    """A project whose compilers come from a script that builds with `cc` alone."""
    script = tmp_path / "toolchain.sh"
    script.write_text(
        '#!/bin/sh\nset -e\nout="$(dirname "$0")/made/$1"\nmkdir -p "$out/tools" "$out/source"\n'
        'git -C "$SMALL_REPO" archive "$1" | tar -x -C "$out/source"\n'
        'cc -O0 "-DCOMMIT=\\"$1\\"" -o "$out/tools/iree-compile" $(find "$out/source" -name "*.c")\necho "$out"\n'
    )
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
    small: SmallCompiler, recipe: Path, project: Callable[[str], Path], triage: Triage, home: Path, calls: Path
) -> None:
    found = answered(triage(*words(small, recipe, project(BUILD), "--jobs", "2")))
    assert is_culprit(found, small)
    assert found["probes"] <= 24
    for one in found["untestable"]:
        at = small.shas.index(one["revision"]["commit"])
        assert small.fates[at] is Fate.BROKEN
        assert "does not build" in one["reason"]
        log = Path(one["reason"].rpartition("(log: ")[2].rstrip(")"))
        assert "redefinition of" in log.read_text()
    for one in found["other_failures"]:
        assert small.fates[small.shas.index(one["revision"]["commit"])] in (Fate.OTHER, Fate.CRASH)
    built = counted(calls, "build")
    assert max(built.values()) <= 2  # what fails in a used build folder is tried again in an empty one
    # All of it is known now: not one build, and compiles of the pair alone, which is always confirmed.
    calls.unlink()
    assert is_culprit(answered(triage(*words(small, recipe, project(BUILD)))), small)
    assert not counted(calls, "build")
    assert set(counted(calls)) == {small.shas[CULPRIT - 1], small.sha}


def test_neighbours_that_do_not_build_leave_suspects(
    hemmed: SmallCompiler, recipe: Path, project: Callable[[str], Path], triage: Triage, home: Path
) -> None:
    found = answered(triage(*words(hemmed, recipe, project(BUILD), first=100, last=200)), status=3)
    assert found["status"] == "suspects"
    assert found["before"]["commit"] == hemmed.shas[CULPRIT - 5]
    assert found["after"]["commit"] == hemmed.sha
    assert {one["commit"] for one in found["suspects"]} == set(hemmed.shas[CULPRIT - 4 : CULPRIT + 1])
    assert [one["revision"]["commit"] for one in found["other_failures"]] == [hemmed.shas[CULPRIT - 4]]


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_script_that_builds(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    found = answered(triage(*words(small, recipe, command, "--jobs", str(jobs))))
    assert is_culprit(found, small)
    # The ends, the choice among 240, the pair again, and one more for each that said nothing.
    assert found["probes"] <= 2 + 9 + 2 + (4 * found["rounds"] if jobs > 1 else 0) + len(found["untestable"]) + 4


def test_each_fate_at_both_sides_of_the_culprit(
    tmp_path: Path, recipe: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, fate in enumerate((Fate.BROKEN, Fate.OTHER, Fate.CRASH)):
        for beside in (-1, 1):
            given = [Fate.SOUND] * 12
            given[6 + beside] = fate
            one = begin(tmp_path / f"{number}{beside}", given, 6)
            monkeypatch.setenv("SMALL_REPO", str(one.path))
            done = triage(*words(one, recipe, command, first=0, last=11))
            if beside == 1:
                assert is_culprit(answered(done), one)
            else:
                found = answered(done, status=3)
                assert {each["commit"] for each in found["suspects"]} == {one.shas[5], one.sha}


FIRST, LAST = 130, 175
EXPIRED = frozenset(range(136, 148, 3))
CORRUPT = 146
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
    wheels = {at: wheel for at in range(FIRST - 10, LAST + 1) if (wheel := artifact(small, at, tmp_path))}
    for name, gone in (("all", frozenset()), ("neighbours", frozenset({CULPRIT - 1, CULPRIT + 1})), ("it", {CULPRIT})):
        monkeypatch.setenv("TRIAGE_HOME", str(home / name))
        with serve_github() as github:
            monkeypatch.setenv("GITHUB_API_URL", github.url)
            monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
            for at in range(FIRST - 10, LAST + 1):
                day = f"2026-01-{1 + at // 24:02}T{at % 24:02}:05:00Z"
                if at == RUNNING:
                    github.run(small.shas[at], day, status="in_progress", conclusion=None)
                elif at not in wheels:
                    github.run(small.shas[at], day, conclusion="failure")
                else:
                    data = b"PK\x03\x04 cut off" if at == CORRUPT else wheels[at]
                    github.run(small.shas[at], day, data, expired=at in EXPIRED or at in gone)
            github.refusals = [(429, {"Retry-After": "0"})]
            done = triage(*words(small, recipe, project(sources), first=134, last=LAST))
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
    return archive(make_wheel(program.parent, f"9.9.9.dev0+{small.shas[at][:10]}", payload=program.read_bytes()))


def test_killed_at_every_step(
    small: SmallCompiler, recipe: Path, project: Callable[[str], Path], home: Path, calls: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "from triage.cli import main; main()"]
    command += words(small, recipe, project(BUILD), "--jobs", "1", first=100, last=200)
    kills = 0
    known: set[str] = set()
    fixed: set[str] = set()
    calls.touch()
    while kills < 60:
        before = len(calls.read_text().splitlines())
        begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        # Not always at the same moment of a step.
        while begun.poll() is None and len(calls.read_text().splitlines()) <= before + kills % 2:
            time.sleep(0.003)
        if begun.poll() is None:
            time.sleep(0.01 * (kills % 3))
            begun.send_signal(signal.SIGKILL)
        stdout, stderr = begun.communicate()
        lines = [line.split() for line in calls.read_text().splitlines()[before:]]
        pair = {small.shas[CULPRIT - 1], small.sha}
        assert not [line for line in lines if line[1] == "main" and line[0][:10] in known and line[0] not in pair]
        assert not [line for line in lines if line[1] == "build" and line[0] in fixed]
        if begun.returncode != -signal.SIGKILL:
            assert begun.returncode == 0, stderr
            break
        kills += 1
        known, fixed = probed(home), built(home, small)
    assert kills >= 8
    assert is_culprit(json.loads(stdout), small)


def probed(home: Path) -> set[str]:
    """The commits whose outcome is on disk, in short."""
    if not (home / "evidence.db").exists():
        return set()
    with sqlite3.connect(home / "evidence.db") as store:
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
    asked = words(small, recipe, command, "--jobs", "1", first=100, last=200)
    near = small.shas[CULPRIT - 2]
    lines = f"\nshow {small.sha}\nback\n\njump {near}\n\ngood {small.shas[101]}\nlog\njump nothing\nquit\n"
    done = typed(triage, lines, asked)
    assert done.returncode == 130, done.stderr
    assert "KernelConfig.c" in done.stderr or "FormDispatchRegions.c" in done.stderr or "ScheduleExecution.c" in done.stderr
    assert "taken back: " in done.stderr
    assert f"next: {near[:10]}" in done.stderr
    assert f"good  {small.shas[101][:10]}  person" in done.stderr
    assert "'nothing' is none of the 101 places" in done.stderr
    first = counted(calls)
    assert first[near] == 1
    calls.unlink()
    done = typed(triage, "\n\nauto\n", [*asked, "--resume"])
    assert "3 verdicts of the journal are used again" in done.stderr
    assert is_culprit(answered(done), small)
    again = counted(calls)
    assert not {sha for sha in again if sha in first} - {small.shas[CULPRIT - 1], small.sha}
    # Enter all the way, with everything known.
    assert is_culprit(answered(typed(triage, "\n" * 30, asked)), small)


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
    done = triage(*words(small, recipe, command, "--jobs", "1", "--import-log", str(log), first=140, last=170))
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
