"""The mistakes that a newcomer makes end with what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import recipe

RELEASES = 1
MISTAKES = {
    "a mistyped key": ("run key.yaml", 2, 'key.yaml:4:1: "flgs".* mean "flags"'),
    "an unknown version": ("run good.yaml -t 9.9.9", 4, "9.9.9.*list"),
    "a binary": ("run binary", 2, r"binary is not a recipe \(.yaml\)"),
    "an empty folder": ("run empty", 2, "has no recipe"),
    "another family": ("run good.yaml -t triton:3.2.0", 2, "of triton, .* use iree"),
    "a wrong case": ("bisect many.yaml --case kind=c", 2, r"many\[kind=a\]"),
    "no day": ("run good.yaml -t nightly:soon", 2, "not a revision"),
    "a commit without a clone": ("run good.yaml -t commit:abc1234", 2, "--repo"),
    "no such log": ("classify nothing.log", 2, "nothing.log"),
    "a bound of nothing": ("bisect good.yaml --above 3", 2, "--metric"),
    "no module": ("lint empty.mlirbc", 2, "empty.mlirbc"),
    "no folder": ("lint good.yaml -t path:/nowhere", 4, "/nowhere does not exist"),
    "nowhere to write": ("nightly good.yaml --reduce", 2, "--out"),
    "no reproducer": ("replay empty", 2, "contains no reproducer"),
    "no clone": ("bisect good.mlir --repo .", 2, "repository"),
    "an empty program": ("why empty.mlir", 2, "empty"),
    "syntax of a kernel": ("run syntax.py:kernel", 2, "syntax.py:2: .*closed"),
    "several cases": ("bisect many.yaml", 2, r"--case: many\[kind=a\]"),
}


@pytest.fixture
def place(workplace: Path, home: Path, released: None) -> Path:
    recipe(workplace, "good", "fine")
    recipe(workplace, "key", "fine", "flgs: [--a]")
    recipe(workplace, "many", "fine", "matrix: {kind: [a, b]}\nargs: {k: '${kind}'}")
    (workplace / "many.py").write_text("print('// fine')\n")
    many = (workplace / "many.yaml").read_text().replace("many.mlir", "many.py")
    (workplace / "many.yaml").write_text(many)
    (workplace / "empty").mkdir()
    (workplace / "empty.mlir").touch()
    (workplace / "empty.mlirbc").write_bytes(b"ML\xefR\x00")
    (workplace / "syntax.py").write_text("width = 4\nprint('// fine'")
    (workplace / "binary").write_bytes(b"\x7fELF\x02\x01\xff\x00")
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
