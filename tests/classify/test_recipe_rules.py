"""A recipe's own failure rules apply in every command that judges or reports its runs."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Triage

COMPILER = """#!/bin/sh
if grep -q BAD "$1"; then echo "minicc: $1: construct 17 is not allowed" >&2; exit 3; fi
if grep -q UGLY "$1"; then echo "minicc: $1: cannot read this" >&2; exit 3; fi
cp "$1" "$2"
"""
EXPLANATION = "Minicc rejects this construct."
ADVICE = "Use another construct."
RULES = f"""family: minicc
classes:
  - class: not-allowed
    rank: 30
    patterns:
      - regex: "construct (?P<number>\\\\d+) is not allowed"
        where: line
        anchor: "is not allowed"
    identity: [number]
    explanation: {EXPLANATION}
    remedies: ["{ADVICE}"]
    examples:
      - text: "minicc: x.c: construct 17 is not allowed"
        details: {{number: 17}}
    near_misses: ["it is allowed"]
"""
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/minicc", "{input}", "{output}"]
rules: minicc.rules
input: program.c
"""


def compiler(folder: Path, script: str = COMPILER) -> Path:
    folder.mkdir()
    (folder / "minicc").write_text(script)
    (folder / "minicc").chmod(0o755)
    return folder


def recipe(folder: Path, program: str) -> Path:
    folder.mkdir()
    (folder / "program.c").write_text(program)
    (folder / "minicc.rules").write_text(RULES)
    (folder / "mine.yaml").write_text(RECIPE)
    return folder / "mine.yaml"


def test_run_prints_the_explanation_of_a_recipe_rule(home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ("run", recipe(tmp_path / "recipes", "BAD\n"), "-t", f"path:{compiler(tmp_path / 'minicc')}")
    for _ in range(2):  # the second answer comes from the cache
        done = triage(*words)
        assert done.returncode == 1, done.stderr
        assert "not-allowed" in done.stdout
        assert ADVICE in done.stdout
