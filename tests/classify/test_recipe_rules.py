"""A recipe's own failure rules apply in every command that judges or reports its runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

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
PROJECT = """name: minicc
compiler: command@mine
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


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str, str]:
    """A clone with three commits; the first and the last of them."""
    folder = tmp_path / "repository"

    def git(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    folder.mkdir()
    git("init", "-q", "-b", "main")
    for number in range(3):
        (folder / "parser.c").write_text(f"{number}\n")
        git("add", ".")
        git("commit", "-qm", f"Change the parser, part {number}")
    return folder, git("rev-parse", "HEAD~2"), git("rev-parse", "HEAD")


def test_run_prints_the_explanation_of_a_recipe_rule(home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ("run", recipe(tmp_path / "recipes", "BAD\n"), "-t", f"path:{compiler(tmp_path / 'minicc')}")
    for _ in range(2):  # the second answer comes from the cache
        done = triage(*words)
        assert done.returncode == 1, done.stderr
        assert EXPLANATION in done.stdout
        assert ADVICE in done.stdout


def test_the_nightly_report_contains_the_explanation(home: Path, triage: Triage, tmp_path: Path) -> None:
    good = compiler(tmp_path / "good", COMPILER.replace("BAD", "NONE"))
    bad = compiler(tmp_path / "bad")
    source = recipe(tmp_path / "recipes", "BAD\n")
    done = triage("nightly", source, "-t", f"path:{bad}", "-b", f"path:{good}", "--out", tmp_path / "night")
    assert done.returncode == 1, done.stderr
    report = (tmp_path / "night/nightly.md").read_text()
    assert EXPLANATION in report
    assert ADVICE in report


def test_suspects_judges_stored_runs_of_this_case_with_its_rules(
    home: Path, triage: Triage, tmp_path: Path, repository: tuple[Path, str, str]
) -> None:
    minicc = compiler(tmp_path / "minicc")
    source, same_name = recipe(tmp_path / "recipes", "BAD\n"), recipe(tmp_path / "others", "UGLY\n")
    for path in (source, same_name):  # the run of the other recipe is the latest under this name
        assert triage("run", path, "-t", f"path:{minicc}").returncode == 1
    (tmp_path / "triage.yaml").write_text(PROJECT)
    clone, first, last = repository
    ends = ("--repo", clone, "--project", tmp_path / "triage.yaml", "--good", first, "--bad", last)
    classes = {}
    for path in (source, same_name):
        done = triage("suspects", path, *ends, "--format", "json")
        assert done.returncode == 0, done.stderr
        classes[path] = json.loads(done.stdout)["failure"]["class"]
    assert classes == {source: "not-allowed", same_name: "unknown"}
