"""No value in a recipe, a project or a rule file makes the program crash; each mistake
is reported with its position.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from triage.classify import load_rules
from triage.compilers.registry import recipe_families
from triage.model.errors import BadFiles
from triage.recipes.loader import load_recipes
from triage.toolchains.sources.project import parse_project

BASE = "name: {name}\ninput: m.mlir\ntarget: {{backend: llvm-cpu}}\n"
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
def test_extreme_values(tmp_path: Path, value: str) -> None:
    (tmp_path / "m.mlir").touch()
    recipe, rules, families = (
        tmp_path / "a.yaml",
        tmp_path / "rules.yaml",
        recipe_families(),
    )
    for key in KEYS:
        recipe.write_text(BASE.format(name="a") + key % value + "\n")
        accept(lambda: load_recipes([recipe], families))
    project = "name: a\ncompiler: iree\nbuild: "
    build = f"{{commands: x, timeout: {value}}}\n"
    accept(lambda: parse_project("triage.yaml", project + build))
    for key in ("signals: [%s]", "says_nothing: %s"):
        before = 'family: x\nclasses:\n  - class: mine\n    explanation: e\n    patterns: [{regex: "a"}]\n    '
        rules.write_text(before + key % value + "\n")
        accept(lambda: load_rules([rules]))


def test_variables_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").touch()
    recipe = tmp_path / "a.yaml"
    texts = (
        "env: [A, B]\n",
        'env: {A: "${d}", B: 1}\nmatrix: {d: [x]}\n',
        "env: A\n",
    )
    envs = []
    for text in texts:
        recipe.write_text(BASE.format(name="a") + text)
        envs += [dict(case.env) for case in load_recipes([recipe], recipe_families())]
    assert envs == [{"A": None, "B": None}, {"A": "x", "B": "1"}, {"A": None}]
