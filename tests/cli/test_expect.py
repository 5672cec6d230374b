"""`triage expect update` on recipes of a shell script that stands for a compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.conftest import Asked
from tests.programs import write_program
from triage.compilers.registry import load_cases
from triage.execution.task import ProbeJob
from triage.model.outcome import Cause, NoAnswer, Probe
from triage.model.revision import Revision
from triage.nightly.expectation_update import update_expectations
from triage.recipes.expectations import updated_expectations
from triage.toolchains.registry import ToolchainRef

RECIPE = """\
name: own
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "${kind}", "{output}"]
version: {run: ["{toolchain}/bin/cc", "--version"], pattern: "version (.+)"}
input: input.txt
matrix: {kind: [good, bad, moody]}
expect: expect.yaml  # ours
"""
EXPECT = """\
# known
kind=good:
  - {failure: unknown, issue: "a/b#1"}  # fixed soon
kind=moody: [{failure: unknown}]
"""
UPDATED = """\
# Known failures. `triage expect update` writes this file.
"kind=good":
  - {failure: unknown, until: "3.0", issue: "a/b#1"}
"kind=bad":
  - {failure: unknown, since: "3.0"}
"kind=moody":
  - {failure: unknown}
"""
# `moody` passes each time but the second.
COMPILER = """\
#!/bin/sh
[ "$1" = --version ] && echo version 3.0 && exit 0
if [ "$2" = moody ]; then echo run >> {folder}/runs; fi
if [ "$2" = bad ] || [ "$2 $(wc -l < {folder}/runs)" = "moody 2" ]; then echo "error: it is $2" >&2; exit 1; fi
echo done > "$3"
"""


@pytest.fixture
def recipe(home: Path, tmp_path: Path) -> Path:
    compiler = COMPILER.format(folder=tmp_path)
    write_program(tmp_path / "built" / "bin" / "cc", compiler)
    (tmp_path / "runs").write_text("")
    (tmp_path / "input.txt").write_text("text")
    (tmp_path / "expect.yaml").write_text(EXPECT)
    (tmp_path / "own.yaml").write_text(RECIPE)
    return tmp_path / "own.yaml"


def test_each_case_gets_what_was_seen_and_a_flaky_one_stays(
    asked: Asked, recipe: Path
) -> None:
    answer = asked("expect", "update", recipe, "-t", f"path:{recipe.parent / 'built'}")
    assert (recipe.parent / "expect.yaml").read_text() == UPDATED
    assert recipe.read_text() == RECIPE
    [file] = answer["files"]
    changes = {change["case"]: change["after"] for change in file["changes"]}
    assert changes == {
        "own[kind=good]": "unknown until 3.0",
        "own[kind=bad]": "unknown",
    }
    [left] = answer["left"]
    assert (left["case"], "flaky" in left["reason"]) == ("own[kind=moody]", True)


def test_a_list_in_a_recipe_is_printed_and_never_written(
    asked: Asked, recipe: Path
) -> None:
    text = RECIPE.replace("expect: expect.yaml  # ours\n", "")
    recipe.write_text(text)
    built = f"path:{recipe.parent / 'built'}"
    [file] = asked("expect", "update", recipe, "-t", built)["files"]
    assert '"kind=bad":\n  - {failure: unknown, since: "3.0"}\n' in file["paste"]
    assert recipe.read_text() == text


def test_cases_are_listed_in_the_order_of_the_recipes(recipe: Path) -> None:
    def probe_all(jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in reversed(jobs):
            outcome = NoAnswer(Cause.TIME, "it takes long")
            yield Probe(job.case, job.ref.revision, "3.0", outcome)

    registry = SimpleNamespace(revision=lambda ref: ref.revision)
    engine: Any = SimpleNamespace(probe_all=probe_all, registry=registry)
    cases = load_cases([recipe])
    ref = ToolchainRef(cases[0].compiler, Revision("3.0"))
    updated = update_expectations(engine, cases, ref, updated_expectations)
    assert [left.case for left in updated.left] == [case.name for case in cases]
