"""`triage expect update` on recipes of a shell script that stands for a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.programs import write_program

RECIPE = """\
name: own
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "${kind}", "{output}"]
version: {run: ["{toolchain}/bin/cc", "--version"], pattern: "version (.+)"}
input: input.txt
matrix: {kind: [good, bad]}
expect: expect.yaml  # ours
"""
EXPECT = """\
# known
kind=good:
  - {failure: unknown, issue: "a/b#1"}  # fixed soon
"""
UPDATED = """\
# Known failures. `triage expect update` writes this file.
"kind=good":
  - {failure: unknown, until: "3.0", issue: "a/b#1"}
"kind=bad":
  - {failure: unknown, since: "3.0"}
"""
COMPILER = """\
#!/bin/sh
[ "$1" = --version ] && echo version 3.0 && exit 0
if [ "$2" = bad ]; then echo "error: it is $2" >&2; exit 1; fi
echo done > "$3"
"""


@pytest.fixture
def recipe(home: Path, tmp_path: Path) -> Path:
    write_program(tmp_path / "built" / "bin" / "cc", COMPILER)
    (tmp_path / "input.txt").write_text("text")
    (tmp_path / "expect.yaml").write_text(EXPECT)
    (tmp_path / "own.yaml").write_text(RECIPE)
    return tmp_path / "own.yaml"


def test_each_case_gets_what_was_seen(asked: Asked, recipe: Path) -> None:
    answer = asked("expect", "update", recipe, "-t", f"path:{recipe.parent / 'built'}")
    assert (recipe.parent / "expect.yaml").read_text() == UPDATED
    assert recipe.read_text() == RECIPE
    [file] = answer["files"]
    changes = {change["case"]: change["after"] for change in file["changes"]}
    assert changes == {
        "own[kind=good]": "unknown until 3.0",
        "own[kind=bad]": "unknown",
    }


def test_a_list_in_a_recipe_is_printed_and_never_written(
    asked: Asked, recipe: Path
) -> None:
    text = RECIPE.replace("expect: expect.yaml  # ours\n", "")
    recipe.write_text(text)
    built = f"path:{recipe.parent / 'built'}"
    [file] = asked("expect", "update", recipe, "-t", built)["files"]
    assert '"kind=bad":\n  - {failure: unknown, since: "3.0"}\n' in file["paste"]
    assert recipe.read_text() == text
