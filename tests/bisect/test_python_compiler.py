"""Commits of a compiler in Python, `compiler: command`, with releases between them that
need an environment each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bisect.driving import answered
from tests.bisect.tiny_compiler import write_case
from tests.conftest import Triage
from tests.git_history.history import ENV, History
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


def module(number: int) -> str:
    return MODULE % ("broken" if number >= CULPRIT else f"sound {number}")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    history = History.begin(tmp_path / "clone")
    for number in range(COUNT):
        history.commit(
            f"change {number}",
            {"tinyc.py": module(number), "n.txt": str(number)},
            f"2025-06-{1 + number // 2:02}T{12 * (number % 2):02}:00:00+00:00",
        )
        if number in RELEASES:
            history.git("tag", f"v{RELEASES[number]}")
    return history


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackIndex]:
    web = tmp_path / "web"
    web.mkdir()
    for number, version in RELEASES.items():
        make_wheel(
            web,
            version,
            distribution="tinyc",
            files={"tinyc.py": module(number).encode()},
        )
    with serve(web) as server:
        server.publish_dated("tinyc", dict.fromkeys(RELEASES.values()))
        monkeypatch.setenv("TRIAGE_INDEX_URL", server.url)
        yield server


@pytest.mark.usefixtures("home", "index")
def test_releases_between_commits_are_installed_as_the_recipe_wants_them(
    clone: History,
    triage: Triage,
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINYC_CALLS", str(tmp_path / "calls"))
    (workplace / "triage.yaml").write_text(PROJECT)
    (workplace / "p.c").write_text("int x;\n")
    (workplace / "r.yaml").write_text(
        'name: p\nsummary: s\ncompiler: command\npackage: tinyc\ncommand: ["{python}", "-m", "tinyc", "{input}"]\ninput: p.c\n'
    )
    shas = clone.git("rev-list", "--reverse", "HEAD").split()
    ends = ["--good", f"commit:{shas[-COUNT]}", "--bad", f"commit:{shas[-1]}"]
    found = answered(
        triage("bisect", "r.yaml", "--repo", clone.path, *ends, "--format", "json")
    )
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]
    assert found["untestable"] == []
    assert len((tmp_path / "calls").read_text().splitlines()) <= 5
    reasons = json.dumps(found["suspects"])
    assert "fusion" not in reasons


def test_a_checkout_that_needs_no_build_is_the_toolchain(
    clone: History, triage: Triage, workplace: Path, home: Path
) -> None:
    write_case(workplace)
    shas = clone.git("rev-list", "--reverse", "HEAD").split()
    ends = ["--good", f"commit:{shas[-COUNT]}", "--bad", f"commit:{shas[-1]}"]
    words = ["r.yaml", "--repo", clone.path, *ends, "-j", "1", "--format", "json"]
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
    days = ["--good", "2025-06-03", "--bad", "2025-06-08", "--repo", clone.path]
    dated = answered(triage("bisect", "r.yaml", *days, "--format", "json"))
    assert dated["after"]["subject"] == f"change {CULPRIT}"
    good = triage("bisect", "r.yaml", *days[:2], "--bad", "2025-06-03", *days[4:])
    assert good.returncode == 2
