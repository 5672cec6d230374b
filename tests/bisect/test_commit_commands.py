"""Commits of a compiler in Python, with releases between them that need an environment
each: tested by a recipe, by a script of the user's own, led by a person, and ranked
before a compile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bisect.tiny_compiler import COPIED, answered, between, write_case
from tests.conftest import Triage
from tests.git_history.history import History
from tests.toolchains.loopback import LoopbackIndex, make_wheel, serve

MODULE = """import sys

if "%s" == "broken":
    raise SystemExit("tinyc: internal error: lost a symbol")
print(open(sys.argv[1]).read())
"""
COUNT, CULPRIT = 24, 13
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
RECIPE = """name: p
compiler: command
package: tinyc
command: ["{python}", "-m", "tinyc", "{input}"]
input: p.c
"""
SCRIPT = """#!/bin/sh
echo "test" >> "CALLS"
grep -q "sound 7" "$TRIAGE_TOOLCHAIN/tinyc.py" && exit 125
python3 "$TRIAGE_TOOLCHAIN/tinyc.py" "${1:-$0}" >/dev/null
"""


def module(number: int) -> str:
    return MODULE % ("broken" if number >= CULPRIT else f"sound {number}")


@pytest.fixture
def clone(tmp_path: Path) -> History:
    history = History.begin(tmp_path / "clone")
    for number in range(COUNT):
        files = {"tinyc.py": module(number), "n.txt": str(number)}
        date = f"2025-06-{1 + number // 2:02}T{12 * (number % 2):02}:00:00+00:00"
        history.commit(f"change {number}", files, date)
        if number in RELEASES:
            history.git("tag", f"v{RELEASES[number]}")
    return history


@pytest.fixture
def shas(clone: History) -> list[str]:
    return clone.git("rev-list", "--reverse", "HEAD").split()


@pytest.fixture
def words(clone: History, shas: list[str], workplace: Path, home: Path) -> list[object]:
    """A bisect of all commits by a recipe."""
    write_case(workplace)
    ends = between(clone.path, shas[0], shas[-1])
    return ["r.yaml", *ends, "-j", "1", "--format", "json"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackIndex]:
    web = tmp_path / "web"
    web.mkdir()
    for number, version in RELEASES.items():
        files = {"tinyc.py": module(number).encode()}
        make_wheel(web, version, distribution="tinyc", files=files)
    with serve(web) as server:
        server.publish_dated("tinyc", dict.fromkeys(RELEASES.values()))
        monkeypatch.setenv("TRIAGE_INDEX_URL", server.url)
        yield server


@pytest.mark.usefixtures("index")
def test_releases_between_commits_are_installed_as_the_recipe_wants_them(
    words: list[object],
    triage: Triage,
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINYC_CALLS", str(tmp_path / "calls"))
    (workplace / "triage.yaml").write_text(PROJECT)
    (workplace / "r.yaml").write_text(RECIPE)
    found = answered(triage("bisect", *words))
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]
    assert found["untestable"] == []
    assert len((tmp_path / "calls").read_text().splitlines()) <= 5
    assert "fusion" not in json.dumps(found["suspects"])


def test_a_checkout_that_needs_no_build_is_the_toolchain(
    words: list[object], clone: History, triage: Triage, home: Path
) -> None:
    done = triage("bisect", *words)
    found = answered(done)
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]
    # one job builds one commit at a time, the ends too
    assert len(list((home / "builders").glob("*/source"))) == 1
    made = (home / "toolchains").glob("build-tinyc-*/")
    files = {file.name for folder in made for file in folder.iterdir()}
    assert "tinyc.py" in files
    assert "n.txt" not in files
    assert "passes" not in done.stderr  # this compiler prints none
    # the last commits of two days: 5 is good, and 15 is bad
    dated = ["bisect", "r.yaml", "--repo", clone.path, "--good", "2025-06-03"]
    found = answered(triage(*dated, "--bad", "2025-06-08", "--format", "json"))
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert triage(*dated, "--bad", "2025-06-03").returncode == 2


def test_a_person_leads_and_resumes_and_suspects_know_the_failure(
    words: list[object], shas: list[str], triage: Triage, home: Path
) -> None:
    led = ["bisect", *words, "--interactive"]
    done = triage(*led, input="\nskip\nwhy\nnothing\nquit\n")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["command"].endswith("--resume")
    assert "the culprit is this one or older with" in done.stderr
    assert done.stderr.count("undo    remove the last verdict") == 2
    done = triage(*led, "--resume", input="\n" * 30)
    assert "resumed: 2 verdicts" in done.stderr
    found = answered(done)
    assert (found["status"], found["confirmed"]) == ("culprit", True)
    assert found["after"]["commit"] == shas[CULPRIT]
    built = set((home / "toolchains").iterdir())
    suspects = ["suspects", "r.yaml", *words[1:7], "--format", "json"]
    ranked = answered(triage(*suspects))["suspects"]
    assert {one["commit"] for one in ranked} == set(shas[1:])
    assert set((home / "toolchains").iterdir()) == built


def test_commits_are_tested_by_a_script(
    words: list[object], triage: Triage, workplace: Path, tmp_path: Path
) -> None:
    calls, script = tmp_path / "calls", workplace / "check.sh"
    words = ["bisect", "--script", "check.sh", *words[1:]]
    script.write_text(SCRIPT.replace("CALLS", str(calls)))
    script.chmod(0o755)
    (workplace / "triage.yaml").write_text(COPIED)
    found = answered(triage(*words))
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]
    assert "lost a symbol" in found["failure"]["headline"]
    skips = found["untestable"]
    assert all("skips it (exit code 125)" in one["reason"] for one in skips)
    bad = {one["failure"] for one in found["log"] if one["verdict"] == "bad"}
    assert bad == {found["failure"]["signature"]}
    # the same test is not repeated, except to confirm; another test is
    first = len(calls.read_text().splitlines())
    answered(triage(*words))
    repeated = len(calls.read_text().splitlines()) - first
    assert repeated < first
    script.write_text(script.read_text() + "# changed\n")
    calls.unlink()
    answered(triage(*words))
    # how long builds took may change the order, and so the number of tests
    assert len(calls.read_text().splitlines()) > repeated
    # a script that cannot start is a failed environment
    script.write_text("#!/bin/sh\nno-such-program\n")
    done = triage(*words[:-2])
    assert done.returncode == 4
    assert "no-such-program: " in done.stdout + done.stderr
