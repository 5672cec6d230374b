"""Commits of a compiler in Python: tested by a recipe, with releases between them, by a
script of the user's own or led by a person, ranked before a compile, and killed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.tiny_compiler import (
    WITH_SUBMODULES,
    between,
    compiler,
    repository,
    write_case,
)
from tests.conftest import Asked, Triage
from tests.git_history.history import History
from tests.programs import TRIAGE
from tests.toolchains.loopback import make_wheel, serve

COUNT, CULPRIT = 24, 13
HISTORY = "P" * CULPRIT + "F" * (COUNT - CULPRIT)
RELEASES = {4: "1.0", 10: "1.1", 12: "1.2", 18: "1.3"}
PROJECT = """name: tinyc
compiler: command:tinyc
distribution: tinyc
releases: {tags: "v{version}"}
build:
  submodules: false
  env: [TINYC_CALLS]
  commands:
    - echo "$TRIAGE_COMMIT" >> "$TINYC_CALLS"
    - python3 -m venv --without-pip "$TRIAGE_OUT"
    - cp "$TRIAGE_SOURCE/tinyc.py" "$TRIAGE_OUT"/lib/python3*/site-packages/
"""
PACKAGED = """name: p
compiler: command
package: tinyc
command: ["{python}", "-m", "tinyc", "{input}"]
input: p.c
"""
SCRIPT = """#!/bin/sh
echo "test" >> CALLS
grep -q "# 7" "$TRIAGE_TOOLCHAIN/tinyc.py" && exit 125
python3 "$TRIAGE_TOOLCHAIN/tinyc.py" "${1:-$0}" >/dev/null
"""
SECRET = "https://me:secret@127.0.0.1:9/{}.git?token=secret"
LOGGED = """name: p
compiler: command
command: [sh, -c, 'echo "$0" >> "$TINYC_CALLS"; python3 "$0" "$1"', "{toolchain}/tinyc.py", "{input}"]
input: p.c
env: [TINYC_CALLS]
"""


@dataclass
class Bench:
    """A clone of a compiler, next to which are a recipe and a project file."""

    clone: Path
    asked: Asked
    triage: Triage
    shas: list[str] = field(default_factory=list)

    def words(self, good: int = 0, bad: int = -1) -> list[object]:
        """Return a recipe, and options for a search between two commits."""
        ends = between(self.clone, self.shas[good], self.shas[bad])
        return ["r.yaml", *ends, "-j", "1"]


@pytest.fixture
def bench(workplace: Path, home: Path, asked: Asked, triage: Triage) -> Bench:
    write_case(workplace)
    return Bench(workplace.parent / "clone", asked, triage)


@pytest.fixture
def broken(bench: Bench) -> Bench:
    """One commit breaks the compiler."""
    bench.shas = repository(HISTORY, bench.clone)
    return bench


def is_right(answer: dict[str, Any]) -> bool:
    subject = f"change {CULPRIT} (#{100 + CULPRIT})"
    return answer["confirmed"] and answer["after"]["subject"] == subject


@pytest.mark.parametrize(
    ("history", "kind", "broke", "this"),
    [
        # `git bisect run` names 3: a missing name and a usage message are no success,
        # but say nothing about this failure
        ("PPPNNHHNFFFF", "regression", (2, 3), (2, 8)),
        ("FFFFGGGGNPPP", "fix", (8, 9), (3, 4)),
    ],
)
def test_commits_are_answered_for_any_failure_and_for_this_one(
    history: str,
    kind: str,
    broke: tuple[int, int],
    this: tuple[int, int],
    bench: Bench,
    home: Path,
) -> None:
    bench.shas = repository(history, bench.clone)

    def pair(change: dict[str, Any]) -> tuple[int, ...]:
        ends = (change[key]["commit"] for key in ("before", "after"))
        return tuple(map(bench.shas.index, ends))

    words = bench.words() if kind == "regression" else bench.words(-1, 0)
    code = 0 if this[1] - this[0] == 1 else 3
    answer = bench.asked("bisect", *words, "--find", kind, code=code)
    # one job builds one commit at a time, the ends too
    assert len(list((home / "builders").glob("*/source"))) == 1
    assert (pair(answer["broke"]), pair(answer)) == (broke, this)
    [suspect] = answer["broke"]["suspects"]
    assert suspect["commit"] == bench.shas[broke[1]]
    assert answer["broke"]["confirmed"]
    assert answer["changed"]
    text = bench.triage("bisect", *words, "--find", kind, code=code).stdout
    shown = [line.split()[1] for line in text.splitlines() if "  commit  " in line]
    assert bench.shas[broke[1]][:10] in shown[:1]  # not that of the other change


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serves the releases."""
    web = tmp_path / "web"
    web.mkdir()
    for number, version in RELEASES.items():
        files = {"tinyc.py": compiler(HISTORY[number], number).encode()}
        make_wheel(web, version, distribution="tinyc", files=files)
    with serve(web) as server:
        server.publish_dated("tinyc", dict.fromkeys(RELEASES.values()))
        monkeypatch.setenv("TRIAGE_INDEX_URL", server.url)
        yield


def test_releases_between_commits_are_installed_as_the_recipe_wants_them(
    index: None,
    broken: Bench,
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINYC_CALLS", str(tmp_path / "calls"))
    for number, version in RELEASES.items():
        History(broken.clone).git("tag", f"v{version}", broken.shas[number])
    (workplace / "triage.yaml").write_text(PROJECT)
    (workplace / "r.yaml").write_text(PACKAGED)
    # the last commits of two days: 5 is good, and 15 is bad
    days = ["--good", "2025-06-03", "--bad", "2025-06-08"]
    answer = broken.asked("bisect", *broken.words(), *days)
    assert is_right(answer)
    assert answer["untestable"] == []
    assert len((tmp_path / "calls").read_text().splitlines()) <= 5


def test_a_person_leads_and_resumes_and_suspects_know_the_failure(
    broken: Bench, home: Path
) -> None:
    led = ["bisect", *broken.words(), "--interactive"]
    typed = "bad\nundo\nundo\n\nskip\nwhy\nnothing\nquit\n"
    done = broken.triage(*led, input=typed)
    assert done.returncode == 3, done.stderr
    assert "--resume" in done.stdout
    for text in (f"{COUNT - 1} suspects", "removed: ", "is this one or older with"):
        assert text in done.stderr
    assert done.stderr.count("undo    remove the last verdict") == 2
    answer = broken.asked(*led, "--resume", input="\n" * 30)
    assert is_right(answer)
    assert answer["status"] == "culprit"
    # what a person says counts, but does not confirm
    answer = broken.asked(*led, input="bad\n" * 30, code=3)
    assert (answer["status"], answer["confirmed"]) == ("suspects", False)
    assert [suspect["commit"] for suspect in answer["suspects"]] == [broken.shas[1]]
    built = set((home / "toolchains").iterdir())
    ranked = broken.asked("suspects", *broken.words()[:-2])["suspects"]
    assert {suspect["commit"] for suspect in ranked} == set(broken.shas[1:])
    assert set((home / "toolchains").iterdir()) == built


def test_commits_are_tested_by_a_script(
    broken: Bench, workplace: Path, tmp_path: Path
) -> None:
    calls, script = tmp_path / "calls", workplace / "check.sh"
    words = ["bisect", "--script", "check.sh", *broken.words()[1:]]
    text = SCRIPT.replace("CALLS", str(calls))
    script.write_text(text)
    script.chmod(0o755)

    def tests() -> int:
        """Return how often a bisect calls the script."""
        calls.unlink(missing_ok=True)
        answer = broken.asked(*words)
        assert is_right(answer)
        assert "lost a symbol" in answer["failure"]["headline"]
        for skip in answer["untestable"]:
            assert "skips it (exit code 125)" in skip["reason"]
        bad = {probe["failure"] for probe in answer["log"] if probe["verdict"] == "bad"}
        assert bad == {answer["failure"]["signature"]}
        return len(calls.read_text().splitlines())

    # the same test is not repeated, except to confirm; another test is
    first = tests()
    repeated = tests()
    assert repeated < first
    script.write_text(f"{text}# changed\n")
    # how long builds took may change the order, and so the number of tests
    assert tests() > repeated
    # a script that cannot start is a failed environment
    script.write_text("#!/bin/sh\nno-such-program\n")
    done = broken.triage(*words)
    assert done.returncode == 4
    assert "no-such-program: " in done.stdout + done.stderr


def test_submodules_are_fetched_only_where_the_build_needs_them(
    bench: Bench, workplace: Path, home: Path
) -> None:
    history = History.begin(bench.clone)
    history.git("remote add origin", SECRET.format("tinyc"))
    first = history.commit("first", {"tinyc.py": compiler("P", 0)})
    gitlink = f"160000,{first},third_party/lib"
    history.git("update-index --add --cacheinfo", gitlink)
    (bench.clone / "third_party/lib").mkdir(parents=True)
    modules = f'[submodule "lib"]\npath = third_party/lib\nurl = {SECRET.format("lib")}'
    history.write(".gitmodules", modules)
    bench.shas = [first, history.commit("last", {"tinyc.py": compiler("F", 1)})]
    words = ["bisect", *bench.words()]
    assert bench.asked(*words)["after"]["subject"] == "last"
    (workplace / "triage.yaml").write_text(WITH_SUBMODULES)
    done = bench.triage(*words)
    assert done.returncode == 4
    printed = done.stdout + done.stderr
    assert "git submodule failed" in printed
    for path in (home / "logs").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        printed += path.read_text()
    assert "127.0.0.1:9/lib.git" in printed
    assert "secret" not in printed


@pytest.mark.parametrize(
    "kills",
    [(0, 2, 1, 5), pytest.param((0, 2, 1, 5, 10) * 3, marks=pytest.mark.slow)],
)
def test_a_kill_at_any_step_loses_at_most_the_step(
    kills: tuple[int, ...],
    workplace: Path,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = workplace / "calls"
    log.touch()
    monkeypatch.setenv("TINYC_CALLS", str(log))
    bench.shas = repository("P" * 9 + "F" * 7, bench.clone)
    write_case(workplace, LOGGED)

    def compiled() -> list[str]:
        """Return the commits that were compiled, in order."""
        folders = [Path(line).parent.name for line in log.read_text().splitlines()]
        return [folder.split("-")[2] for folder in folders]

    for number, steps in enumerate(kills):
        most = len(compiled()) + steps
        begun = subprocess.Popen([*TRIAGE, "bisect", *bench.words()], cwd=workplace)
        while begun.poll() is None and len(compiled()) <= most:
            time.sleep(0.003)
        time.sleep(0.015 * (number % 4))
        begun.kill()
        begun.wait()
    answer = bench.asked("bisect", *bench.words())
    assert answer["confirmed"]
    assert answer["after"]["commit"] == bench.shas[9]
    # the pair and the failing end are always probed again
    again = {bench.shas[index][:16] for index in (8, 9, 15)}
    others = [sha for sha in compiled() if sha not in again]
    assert len(others) >= 3
    assert len(others) - len(set(others)) <= len(kills)  # one at a time is stopped
