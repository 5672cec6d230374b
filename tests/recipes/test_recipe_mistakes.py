"""Whatever a recipe, a project or a rule file contains becomes cases, or mistakes with
their positions and what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.recipes.conftest import Told
from tests.recipes.loading import load_recipes
from triage.classify import load_rules
from triage.model.errors import BadFiles
from triage.toolchains.project import load_project

GOLDEN = Path(__file__).parent / "golden"
MISTAKES = yaml.safe_load((GOLDEN / "mistakes.yaml").read_text())
BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: llvm-cpu}\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["says"])
def test_a_mistake_has_its_position_and_what_to_write(
    told: Told, folder: Path, mistake: dict[str, str]
) -> None:
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    Path("expect.yaml").write_text('a: [{failure: timeout, sicne: "3.1.0"}]\n')
    problems = told(mistake["recipe"])
    assert any(
        problem.startswith(mistake["at"]) and mistake["says"] in problem
        for problem in problems
    ), problems


def test_many_mistakes_are_reported_at_once(told: Told) -> None:
    """`many_mistakes.txt` has the position and a key word of each."""
    known = {"shared-memory-overflow", "out-of-memory"}
    problems = told((GOLDEN / "many_mistakes.yaml").read_bytes(), known)
    lines = (GOLDEN / "many_mistakes.txt").read_text().splitlines()
    for problem, line in zip(problems, lines, strict=True):
        position, word = line.split(" ", 1)
        assert problem.startswith(f"{position}: ")
        assert word in problem


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"name: a\0", "control characters"),
        (b"# fine\nname: \xff\n", "line 2 is not UTF-8"),
        ("name: a".encode("utf-16"), "line 1 is not UTF-8"),
        (b"", "triage recipe new"),
        (b"# only a comment\n", "triage recipe new"),
        (b"[" * 200_000, "nesting depth"),
        # aliases cannot flood the memory
        (
            b"a: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
            + b"".join(
                b"b%d: &l%d [%s]\n" % (n, n + 1, b", ".join([b"*l%d" % n] * 10))
                for n in range(12)
            ),
            "20000 values",
        ),
        (b"name: a\ninput: %s.mlir\n" % (b"x" * 300), "name too long"),
    ],
)
def test_files_without_a_recipe(told: Told, data: bytes, fragment: str) -> None:
    assert fragment in "\n".join(told(data))


def test_a_name_used_twice_names_both_places(folder: Path) -> None:
    Path("a.yaml").write_text("# first\n" + BASE)
    Path("b.yaml").write_text(BASE)
    with pytest.raises(BadFiles, match=r"^a\.yaml:2:7: .*b\.yaml:1:7"):
        load_recipes([Path("b.yaml"), Path("a.yaml")])


NINES, MANY = "9" * 400, "9" * 5000
VALUES = {
    "a size of 400 digits": f"{NINES}GiB",
    "5000 digits": MANY,
    "text tagged as a number": "!!int '!x [['",
    "no number": ".nan",
    "other digits": "²",
    "nothing": "~",
    "an empty list": "[]",
    "an empty mapping": "{}",
    "a mapping": "{a: 1}",
}
KEYS = """
limits: {timeout: %s}
limits: {memory: %s}
limits: {output: %s}
limits: %s
args: {n: %s}
summary: %s
matrix: {d: [%s]}
flags: [{flag: --a, since: %s}]
flags: [%s]
expect: [{failure: x, until: %s}]
phase: %s
env: %s
env: [%s]
env: {A: %s}
%s: x
run: {inputs: [%s]}
run: {inputs: ["@%s"]}
""".splitlines()[1:]


def accept(load: Callable[[], object]) -> None:
    try:
        load()
    except BadFiles as error:
        if not all(problem.line and problem.column for problem in error.problems):
            pytest.fail(str(error))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_extreme_values(folder: Path, value: str) -> None:
    recipe, rules = folder / "a.yaml", folder / "rules.yaml"
    for key in KEYS:
        recipe.write_text(f"{BASE}{key % value}\n")
        accept(lambda: load_recipes([recipe]))
    project = "name: a\ncompiler: iree\nbuild: "
    build = f"{{commands: x, timeout: {value}}}\n"
    rules.write_text(project + build)
    accept(lambda: load_project(rules))
    for key in ("rank: %s", "says_nothing: %s"):
        before = 'family: x\nclasses:\n  - class: mine\n    explanation: e\n    patterns: [{regex: "a"}]\n    '
        rules.write_text(before + key % value + "\n")
        accept(lambda: load_rules([rules]))
