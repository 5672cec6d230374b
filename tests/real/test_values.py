"""The matrix of values: each element type comes back as it was given, by whatever way
a value is written, expected, computed by a reference or kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Asked
from tests.values import ELEMENTS, write_matrix

pytestmark = pytest.mark.real
LLVM = "target: {backend: llvm-cpu}\n"
XLA = "compiler: xla\ntarget: {backend: cpu}\n"
DEMOTED = {"f64", "cf128"}  # IREE computes them in fewer bits
FLOATS_OF_8_BITS = {name for name in ELEMENTS if name.startswith("f8")}
WRONG = "element 0, 1 differ"


def _check(asked: Asked, folder: Path, names: list[str], head: str, rev: str) -> None:
    folder.mkdir()
    wrong = write_matrix(folder, names, head, rev.partition(":")[2] or rev)
    answers = asked("run", folder, "-t", rev, code=1)["results"]
    seen = {entry["case"]: _seen(entry) for entry in answers}
    assert seen == {name: WRONG if name in wrong else "passed" for name in seen}


def _seen(entry: dict[str, Any]) -> str:
    failure = entry["failure"] or {}
    if failure.get("class") == "wrong-result":
        details = failure["details"]
        return f"element {details['element']}, {details['mismatches']} differ"
    return str(failure.get("headline") or entry["reason"] or entry["status"])


@pytest.mark.parametrize(
    ("rev", "untested"), [("2.9.0", DEMOTED | FLOATS_OF_8_BITS), ("3.13.0", DEMOTED)]
)
def test_iree_keeps_every_type(
    asked: Asked, tmp_path: Path, rev: str, untested: set[str]
) -> None:
    names = [name for name in ELEMENTS if name not in untested]
    _check(asked, tmp_path / "recipes", names, LLVM, rev)


def test_xla_keeps_every_type(asked: Asked, tmp_path: Path) -> None:
    _check(asked, tmp_path / "recipes", list(ELEMENTS), XLA, "xla:0.10.2")
