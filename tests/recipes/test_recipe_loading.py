"""Cases of valid recipes, and mistakes of several files reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes
from triage.model.case import Expectation, Flag, InputKind, Target
from triage.model.errors import BadFiles
from triage.model.execution import Limits

GOLDEN = Path(__file__).parent / "golden"

FULL = """\
name: cuda-matmul-f32
summary: a matmul — with ümlauts
compiler: iree
input: models/make.py
args: {n: 4096, exact: no, scale: 1.10}
target: {backend: cuda, chip: sm_86, devices: 2}
flags: ["--iree-opt-level=O3", {flag: "--iree-x=y", since: "3.5.0", until: "3.9.0"}]
phase: executable-targets
limits: {timeout: 1h30m, memory: 2GB}
expect:
  - {failure: shared-memory-overflow, since: "3.1.0", until: "3.8.0", issue: "iree-org/iree#19575"}
  - failure: crash
    issue: https://github.com/iree-org/iree/issues/1
"""
SMALL = "name: {name}\ninput: models/matmul.mlir\ntarget: {{backend: cuda}}\n"


def test_every_key_reaches_the_case(loaded, folder):
    (case,) = loaded(FULL)
    assert case.name == case.recipe == "cuda-matmul-f32"
    assert case.summary == "a matmul — with ümlauts"
    assert case.source == folder / "r.yaml"
    assert case.input.path == folder / "models/make.py"
    assert case.input.kind is InputKind.GENERATOR
    assert case.input.args == (("n", "4096"), ("exact", "no"), ("scale", "1.10"))
    assert case.target == Target("cuda", "sm_86", 2)
    assert case.flags == (
        Flag("--iree-opt-level=O3"),
        Flag("--iree-x=y", "3.5.0", "3.9.0"),
    )
    assert case.phase == "executable-targets"
    assert case.limits == Limits(timeout=5400.0, memory=2 * 10**9)
    assert case.expect == (
        Expectation("shared-memory-overflow", "3.1.0", "3.8.0", "iree-org/iree#19575"),
        Expectation("crash", issue="https://github.com/iree-org/iree/issues/1"),
    )


def test_many_mistakes_are_reported_at_once(folder):
    """`many_mistakes.txt` has the position and a key word of each."""
    Path("many_mistakes.yaml").write_text((GOLDEN / "many_mistakes.yaml").read_text())
    with pytest.raises(BadFiles) as raised:
        load_recipes(
            [Path("many_mistakes.yaml")], {"shared-memory-overflow", "out-of-memory"}
        )
    expected = [
        line.split(" ", 1)
        for line in (GOLDEN / "many_mistakes.txt").read_text().splitlines()
    ]
    problems = raised.value.problems
    assert [f"{problem.line}:{problem.column}" for problem in problems] == [
        position for position, _ in expected
    ]
    assert [
        word
        for problem, (_, word) in zip(problems, expected, strict=True)
        if word not in problem.message
    ] == []


def test_a_name_used_twice_names_both_places(folder):
    Path("a.yaml").write_text("# first\n" + SMALL.format(name="same"))
    Path("b.yaml").write_text(SMALL.format(name="same"))
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path("b.yaml"), Path("a.yaml")])
    [problem] = raised.value.problems
    assert (problem.path, problem.line, problem.column) == ("a.yaml", 2, 7)
    assert "b.yaml:1:7" in problem.message
