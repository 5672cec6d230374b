"""The mistakes that a newcomer makes end with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import recipe
from triage.cli.screen import print_stderr

RELEASES = 1
UNREACHABLE = "http://127.0.0.1:9/simple/"
MISTAKES = {
    "a mistyped key": ("run key.yaml", 2, 'key.yaml:4:1: "flgs".* mean "flags"'),
    "an unknown version": ("run good.yaml -t 9.9.9", 4, "9.9.9.*list"),
    "a mistyped option": ("run good.yaml --tolchain 1", 2, "--toolchain"),
    "a mistyped command": ("bisct good.yaml", 2, "mean 'bisect'"),
    "no such recipe": ("run gud.yaml", 2, 'mean "good.yaml"'),
    "no such program": ("why gud.mlir", 2, 'mean "good.mlir"'),
    "a binary recipe": ("run binary.yaml", 2, "binary.yaml: .*not UTF-8"),
    "a binary": ("run binary", 2, r"binary is not a recipe \(.yaml\)"),
    "an empty folder": ("run empty", 2, "has no recipe"),
    "another family": ("run good.yaml -t triton:3.2.0", 2, "of triton, .* use iree"),
    "a wrong case": ("bisect many.yaml --case kind=c", 2, r"many\[kind=a\]"),
    "no day": ("run good.yaml -t nightly:soon", 2, "not a revision"),
    "a commit without a clone": ("run good.yaml -t commit:abc1234", 2, "--repo"),
    "no such log": ("classify nothing.log", 2, "nothing.log"),
    "a bound of nothing": ("bisect good.yaml --above 3", 2, "--metric"),
    "no size": ("toolchains prune --keep much", 2, "--keep"),
    "no argument": ("attribute", 2, "argument 'RECIPE'"),
    "no recipes": ("recipe list", 2, "recipes"),
    "no module": ("lint empty.mlirbc", 2, "empty.mlirbc"),
    "no folder": ("lint good.yaml -t path:/nowhere", 4, "/nowhere does not exist"),
    "no toolchain": ("reduce good.yaml", 2, "--toolchain"),
    "nowhere to write": ("nightly good.yaml --reduce", 2, "--out"),
    "no reproducer": ("replay empty", 2, "contains no reproducer"),
    "no clone": ("bisect good.mlir --repo .", 2, "repository"),
    "no such clone": ("nightly good.yaml --repo nowhere", 2, "nowhere"),
    "no name of a recipe": ("recipe new good.mlir --input good.mlir", 2, ".yaml"),
    "an empty program": ("why empty.mlir", 2, "empty"),
    "a blank program": ("run blank.mlir", 2, "empty"),
    "no -t": ("run good.yaml -t 1.0.0 1.1.0", 2, "write `-t 1.1.0`"),
    "syntax of a kernel": ("run syntax.py:kernel", 2, "syntax.py:2: .*closed"),
    "several cases": ("bisect many.yaml", 2, r"--case: many\[kind=a\]"),
}


@pytest.fixture
def place(workplace: Path, home: Path, released: None, monkeypatch: Any) -> Path:
    monkeypatch.setenv("COLUMNS", "80")
    recipe(workplace, "good", "fine")
    recipe(workplace, "key", "fine", "flgs: [--a]")
    recipe(workplace, "many", "fine", "matrix: {kind: [a, b]}\nargs: {k: '${kind}'}")
    (workplace / "many.py").write_text("print('// fine')\n")
    many = (workplace / "many.yaml").read_text().replace("many.mlir", "many.py")
    (workplace / "many.yaml").write_text(many)
    (workplace / "empty").mkdir()
    (workplace / "empty.mlir").touch()
    (workplace / "blank.mlir").write_text(" \n\n")
    (workplace / "empty.mlirbc").write_bytes(b"ML\xefR\x00")
    (workplace / "syntax.py").write_text("width = 4\nprint('// fine'")
    for name in ("binary", "binary.yaml"):
        (workplace / name).write_bytes(b"\x7fELF\x02\x01\xff\x00")
    return workplace


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(
    triage: Triage, place: Path, mistake: str
) -> None:
    line, code, message = MISTAKES[mistake]
    done = triage(*line.split())
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.stderr


def test_without_network_what_is_installed_works(
    triage: Triage, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert triage("toolchains", "install", "1.0.0").returncode == 0
    monkeypatch.setenv("TRIAGE_INDEX_URL", UNREACHABLE)
    done = triage("run", "good.yaml", "-t", "1.1.0")
    assert (done.returncode, done.stdout) == (4, "")
    assert "cannot read http" in done.stderr
    assert "`path:DIR` work without it" in done.stderr
    assert triage("run", "good.yaml", "-t", "1.0.0").returncode == 0


def test_a_list_of_cases_is_short(triage: Triage, place: Path) -> None:
    for number in range(30):
        recipe(place / "folder", f"case-{number}", "fine")
    done = triage("run", "folder", "--case", "case_7")
    assert done.returncode == 2
    assert 'mean "case-7"' in done.stderr
    assert "and 22 more; `triage recipe list` shows all" in done.stderr


def test_messages_end_their_lines_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    command = "  triage run " + "recipe.yaml " * 9
    print_stderr("a message of words that need lines " + "x" * 50 + f"\n{command}")
    *lines, path, shown = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 40
    assert (path, shown) == ("x" * 50, command)
