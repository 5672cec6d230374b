"""Whatever a recipe, a project or a rule file contains becomes cases, or mistakes with
their positions and what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.recipes.conftest import BASE, Told
from tests.recipes.loading import load_recipes
from triage.classify import load_rules
from triage.model.errors import BadFiles
from triage.toolchains.project import load_project

GOLDEN = Path(__file__).parent / "golden"
MISTAKES = yaml.safe_load((GOLDEN / "mistakes.yaml").read_text())


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["says"])
def test_a_mistake_has_its_position_and_what_to_write(
    told: Told, mistake: dict[str, str]
) -> None:
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    Path("expect.yaml").write_text('a: [{failure: timeout, sicne: "3.1.0"}]\n')
    problems = told(mistake["recipe"])
    at_it = [problem for problem in problems if problem.startswith(mistake["at"])]
    assert mistake["says"] in "\n".join(at_it), problems


def test_many_mistakes_are_reported_at_once(told: Told) -> None:
    """`many_mistakes.txt` has the position and a key word of each."""
    known = {"shared-memory-overflow", "out-of-memory"}
    problems = told((GOLDEN / "many_mistakes.yaml").read_bytes(), known)
    lines = (GOLDEN / "many_mistakes.txt").read_text().splitlines()
    for problem, line in zip(problems, lines, strict=True):
        position, word = line.split(" ", 1)
        assert problem.startswith(f"{position}: ")
        assert word in problem


# aliases cannot flood the memory
FLOOD = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"b{number}: &l{number + 1} [{', '.join([f'*l{number}'] * 10)}]\n"
    for number in range(12)
)


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"name: a\0", "control characters"),
        (b"# fine\nname: \xff\n", "line 2 is not UTF-8"),
        ("name: a".encode("utf-16"), "line 1 is not UTF-8"),
        (b"", "triage recipe new"),
        (b"# only a comment\n", "triage recipe new"),
        (b"[" * 200_000, "nesting depth"),
        (FLOOD, "20000 values"),
        (b"name: a\ninput: %s.mlir\n" % (b"x" * 300), "name too long"),
    ],
)
def test_files_without_a_recipe(told: Told, data: str | bytes, fragment: str) -> None:
    assert fragment in "\n".join(told(data))


def test_a_name_used_twice_names_both_places(folder: Path) -> None:
    Path("a.yaml").write_text("# first\n" + BASE)
    Path("b.yaml").write_text(BASE)
    with pytest.raises(BadFiles, match=r"^a\.yaml:2:7: .*b\.yaml:1:7"):
        load_recipes([Path("b.yaml"), Path("a.yaml")])


VALUES = {
    "a size of 400 digits": f"{'9' * 400}GiB",
    "5000 digits": "9" * 5000,
    "text tagged as a number": "!!int '!x [['",
    "no number": ".nan",
    "other digits": "²",
    "nothing": "~",
    "an empty list": "[]",
    "an empty mapping": "{}",
    "a mapping": "{a: 1}",
}
RECIPE_KEYS = """\
limits: {timeout: VALUE}
limits: {memory: VALUE}
limits: {output: VALUE}
limits: VALUE
args: {n: VALUE}
summary: VALUE
matrix: {d: [VALUE]}
flags: [{flag: --a, since: VALUE}]
flags: [VALUE]
expect: [{failure: x, until: VALUE}]
phase: VALUE
env: VALUE
env: [VALUE]
env: {A: VALUE}
VALUE: x
run: {inputs: [VALUE]}
run: {inputs: ["@VALUE"]}"""
PROJECT = "name: a\ncompiler: iree\n"
PROJECT_KEYS = "build: {commands: x, timeout: VALUE}"
RULES = """family: x
classes:
  - class: mine
    explanation: e
    patterns: [{regex: "a"}]
"""
RULE_KEYS = "    rank: VALUE\n    says_nothing: VALUE"


@pytest.mark.parametrize(
    ("begin", "keys", "load"),
    [
        (BASE, RECIPE_KEYS, lambda path: load_recipes([path])),
        (PROJECT, PROJECT_KEYS, load_project),
        (RULES, RULE_KEYS, lambda path: load_rules([path])),
    ],
    ids=["recipe", "project", "rules"],
)
@pytest.mark.parametrize("name", VALUES)
def test_extreme_values(
    folder: Path, begin: str, keys: str, load: Callable[[Path], object], name: str
) -> None:
    path, problems = folder / "a.yaml", []
    for key in keys.splitlines():
        path.write_text(f"{begin}{key.replace('VALUE', VALUES[name])}\n")
        try:
            load(path)
        except BadFiles as error:
            problems += error.problems
    assert all(problem.line and problem.column for problem in problems)
