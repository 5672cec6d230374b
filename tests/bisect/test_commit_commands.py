"""Commits of a compiler in Python: compared with `git bisect run`, tested by a recipe
with releases between them, by a script of the user's own or led by a person, ranked
before a compile, and killed meanwhile.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.bisect.tiny_compiler import (
    PROGRAMS,
    RECIPE,
    between,
    compiler,
    repository,
    write_case,
)
from tests.conftest import Asked, Triage
from tests.git_history.history import History
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
OF_GIT = """#!/bin/sh
test -f tinyc.py || exit 125
python3 tinyc.py ../work/p.c && exit CODE
exit $((1 - CODE))
"""
CALL = "import os\nopen(os.environ['TINYC_CALLS'], 'a').write(__file__ + '\\n')\n"


@pytest.fixture
def clone(workplace: Path, home: Path) -> Path:
    """The folder of a clone; in that of the command are a recipe and a project file."""
    write_case(workplace)
    return workplace.parent / "clone"


@pytest.fixture
def shas(clone: Path) -> list[str]:
    """Commits of which one breaks the compiler, and some are released."""
    shas = repository(HISTORY, clone)
    for number, version in RELEASES.items():
        History(clone).git("tag", f"v{version}", shas[number])
    return shas


@pytest.fixture
def words(clone: Path, shas: list[str]) -> list[object]:
    """A recipe, and options for a search of all commits."""
    return ["r.yaml", *between(clone, shas[0], shas[-1]), "-j", "1"]


def named_by_git(clone: Path, shas: list[str], code: int) -> set[int]:
    """Return the commits that `git bisect run` names. code: of a program that passes,
    1 to search a fix.
    """
    script = clone.with_name("test.sh")
    script.write_text(OF_GIT.replace("CODE", str(code)))
    printed = ""
    for step in (["start", shas[-1], shas[0]], ["run", "sh", "../test.sh"], ["reset"]):
        printed += History(clone).git("bisect", *step)
    _, is_open, several = printed.partition("could be any of:")
    pattern = r"^\w{40}$" if is_open else r"^(\w{40}) is the first bad commit"
    named = re.findall(pattern, several or printed, re.MULTILINE)
    return {shas.index(sha) for sha in named}


@pytest.mark.parametrize(
    ("history", "kind", "this"),
    [
        # a missing name and a usage message say nothing about this failure
        ("PPPNNHHNFFFF", "regression", (2, 8)),
        ("FFFFGGGGNPPP", "fix", (3, 4)),
    ],
)
def test_commits_are_answered_as_by_git_and_for_this_failure(
    history: str, kind: str, this: tuple[int, int], asked: Asked, clone: Path
) -> None:
    shas = repository(history, clone)

    def pair(change: dict[str, Any]) -> tuple[int, int]:
        return tuple(shas.index(change[key]["commit"]) for key in ("before", "after"))

    ends = (shas[0], shas[-1])[:: 1 if kind == "regression" else -1]
    words = ["bisect", "r.yaml", "--find", kind, *between(clone, *ends), "-j", "1"]
    answer = asked(*words, code=0 if this[1] - this[0] == 1 else 3)
    by_git = named_by_git(clone, shas, int(kind == "fix"))
    broke = answer["broke"]
    before, after = pair(broke)
    assert set(range(before + 1, after + 1)) == by_git
    assert {shas.index(suspect["commit"]) for suspect in broke["suspects"]} == by_git
    assert broke["confirmed"]
    assert pair(answer) == this
    assert (answer["changed"] is None) == (this == (before, after))


def is_right(answer: dict[str, Any]) -> bool:
    return answer["confirmed"] and answer["after"]["subject"].startswith(
        f"change {CULPRIT} "
    )


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
    words: list[object],
    asked: Asked,
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINYC_CALLS", str(tmp_path / "calls"))
    (workplace / "triage.yaml").write_text(PROJECT)
    (workplace / "r.yaml").write_text(PACKAGED)
    answer = asked("bisect", *words)
    assert is_right(answer)
    assert answer["untestable"] == []
    assert len((tmp_path / "calls").read_text().splitlines()) <= 5


def test_a_checkout_that_needs_no_build_is_the_toolchain(
    words: list[object], clone: Path, asked: Asked, triage: Triage, home: Path
) -> None:
    assert is_right(asked("bisect", *words))
    # one job builds one commit at a time, the ends too
    assert len(list((home / "builders").glob("*/source"))) == 1
    assert list((home / "toolchains").glob("build-tinyc-*/tinyc.py"))
    # the last commits of two days: 5 is good, and 15 is bad
    dated = ["bisect", "r.yaml", "--repo", clone, "--good", "2025-06-03"]
    assert is_right(asked(*dated, "--bad", "2025-06-08"))
    assert triage(*dated, "--bad", "2025-06-03").returncode == 2


def test_a_person_leads_and_resumes_and_suspects_know_the_failure(
    words: list[object], shas: list[str], asked: Asked, triage: Triage, home: Path
) -> None:
    led = ["bisect", *words, "--interactive"]
    done = triage(*led, input="\nskip\nwhy\nnothing\nquit\n")
    assert done.returncode == 3, done.stderr
    assert "--resume" in done.stdout
    assert "the culprit is this one or older with" in done.stderr
    assert done.stderr.count("undo    remove the last verdict") == 2
    answer = asked(*led, "--resume", input="\n" * 30)
    assert is_right(answer)
    assert answer["status"] == "culprit"
    built = set((home / "toolchains").iterdir())
    ranked = asked("suspects", *words[:-2])["suspects"]
    assert {suspect["commit"] for suspect in ranked} == set(shas[1:])
    assert set((home / "toolchains").iterdir()) == built


def test_commits_are_tested_by_a_script(
    words: list[object], asked: Asked, triage: Triage, workplace: Path, tmp_path: Path
) -> None:
    calls, script = tmp_path / "calls", workplace / "check.sh"
    words = ["bisect", "--script", "check.sh", *words[1:]]
    text = SCRIPT.replace("CALLS", str(calls))
    script.write_text(text)
    script.chmod(0o755)

    def tests() -> int:
        calls.unlink(missing_ok=True)
        assert is_right(asked(*words))
        return len(calls.read_text().splitlines())

    first = tests()
    answer = asked(*words)
    assert "lost a symbol" in answer["failure"]["headline"]
    for skip in answer["untestable"]:
        assert "skips it (exit code 125)" in skip["reason"]
    bad = {probe["failure"] for probe in answer["log"] if probe["verdict"] == "bad"}
    assert bad == {answer["failure"]["signature"]}
    # the same test is not repeated, except to confirm; another test is
    repeated = tests()
    assert repeated < first
    script.write_text(f"{text}# changed\n")
    # how long builds took may change the order, and so the number of tests
    assert tests() > repeated
    # a script that cannot start is a failed environment
    script.write_text("#!/bin/sh\nno-such-program\n")
    done = triage(*words)
    assert done.returncode == 4
    assert "no-such-program: " in done.stdout + done.stderr


@pytest.mark.parametrize("kills", [4, pytest.param(15, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_loses_at_most_the_step(
    kills: int, workplace: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workplace / "calls"
    log.touch()
    monkeypatch.setenv("TINYC_CALLS", str(log))
    programs = {letter: CALL + text for letter, text in PROGRAMS.items()}
    shas = repository("P" * 9 + "F" * 7, clone, programs)
    write_case(workplace, f"{RECIPE}env: [TINYC_CALLS]\n")
    program = [sys.executable, "-c", "from triage.cli import main; main()", "bisect"]
    program += ["r.yaml", *between(clone, shas[0], shas[-1]), "-j", "1"]
    # the pair and the failing end are always probed again
    again = {shas[index][:16] for index in (8, 9, 15)}
    finished: set[str] = set()

    def compiled() -> list[str]:
        """Return the commits that were compiled, in order."""
        folders = [Path(line).parent.name for line in log.read_text().splitlines()]
        return [folder.split("-")[2] for folder in folders]

    for number in range(kills + 1):
        before = len(compiled())
        steps = (0, 2, 1, 5, 10)[number % 5] if number < kills else COUNT
        begun = subprocess.Popen(
            [*program, "--format", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workplace,
        )
        while begun.poll() is None and len(compiled()) <= before + steps:
            time.sleep(0.003)
        time.sleep(0.015 * (number % 4))
        begun.kill()
        stdout, stderr = begun.communicate()
        made = compiled()[before:]
        assert not (set(made) & finished) - again
        if begun.returncode != -SIGKILL:
            break
        finished |= set(made[:-1])  # one at a time, so that only the last was stopped
    assert begun.returncode == 0, stderr
    answer = json.loads(stdout)
    assert answer["confirmed"]
    assert answer["after"]["commit"] == shas[9]
    assert len(finished) >= 3
