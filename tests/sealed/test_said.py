"""Whether compiles are sealed is said: by `run --verbose`, with all that each may read,
and by the report of a night.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.programs import write_program
from triage.processes import sealing

pytestmark = pytest.mark.skipif(
    not sealing.can_seal(), reason="this system cannot seal"
)

RECIPE = """name: mine
compiler: command
command: ["{toolchain}/cc", "{input}", "{output}", SPEC]
input: program.txt
reads: [data]
"""


@pytest.fixture
def revs(tmp_path: Path, home: Path) -> list[str]:
    """The names of two compilers of a recipe that names files of three kinds."""
    del home
    for name in ("old", "new"):
        write_program(tmp_path / name / "cc", '#!/bin/sh\ncp "$1" "$2"\n')
    (tmp_path / "data").mkdir()
    for name in ("weights.bin", "spec.mlir"):
        (tmp_path / name).write_text("read")
    (tmp_path / "program.txt").write_text("a program with weights.bin\n")
    text = RECIPE.replace("SPEC", str(tmp_path / "spec.mlir"))
    (tmp_path / "mine.yaml").write_text(text)
    return [f"path:{tmp_path / name}" for name in ("old", "new")]


def test_verbose_names_what_each_compile_may_read(
    revs: list[str], tmp_path: Path, triage: Triage
) -> None:
    words = ("run", tmp_path / "mine.yaml", "-t", revs[0], "--verbose")
    [line] = [
        line for line in triage(*words).stderr.splitlines() if " may read " in line
    ]
    for name in ("old", "program.txt", "weights.bin", "spec.mlir", "data"):
        assert str(tmp_path / name) in line
    assert str(tmp_path / "new") not in line
    assert " may read all files" in triage("--unsealed", *words).stderr
    assert " may read " not in triage(*words[:-1]).stderr


@pytest.mark.parametrize("words", [(), ("--unsealed",)])
def test_a_night_says_whether_it_was_sealed(
    revs: list[str],
    tmp_path: Path,
    workplace: Path,
    triage: Triage,
    words: tuple[str, ...],
) -> None:
    ends = ("-b", revs[0], "-t", revs[1], "--format", "json", "--out", "out")
    night = json.loads(triage(*words, "nightly", tmp_path / "mine.yaml", *ends).stdout)
    assert night["sealed"] is not bool(words)
    report = (workplace / "out" / "nightly.md").read_text()
    assert ("compiles were not sealed" in report) is bool(words)
    assert ("compiles were sealed" in report) is not bool(words)
