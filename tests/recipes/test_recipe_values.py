"""Each key's values: a mistake is reported at its position, and the message contains what to write instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOOD = {
    "name": "name: a",
    "input": "input: models/matmul.mlir",
    "target": "target: {backend: cuda}",
}


def recipe(**lines: str | None) -> str:
    """A good recipe with some lines replaced or added, each with the key it is about; None leaves one out."""
    return "\n".join(line for line in {**GOOD, **lines}.values() if line is not None) + "\n"


def only(told, text: str, failure_names=None) -> str:
    problems = told(text, failure_names)
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize(
    ("target", "column", "fragment"),
    [
        ("{backend: vulkan}", 19, 'did you mean "vulkan-spirv"? Known: cuda, llvm-cpu,'),
        ("{backend: cdua}", 19, 'did you mean "cuda"?'),
        ("{backend: cuda, chip: 90}", 31, 'write "90"'),
        ("{backend: cuda, devices: 0}", 34, "at least 1"),
        ("{backend: cuda, devices: 1.5}", 34, "a whole number"),
        ("{backend: cuda, devices: 99999}", 34, "at most 1024"),
        ("cuda", 9, "write `target: {backend: cuda, chip: sm_86}`"),
    ],
)
def test_targets(told, target, column, fragment):
    problem = only(told, recipe(target=f"target: {target}"))
    assert problem.startswith(f"3:{column}: ")
    assert fragment in problem


@pytest.mark.parametrize(
    ("entry", "fragment"),
    [
        ("since: 3.10", 'write "3.10"'),
        ("since: 3.3", 'write "3.3"'),
        ("until: latest", 'such as "3.5.0"'),
        ('since: "3.9.0", until: "3.5.0"', 'since "3.9.0" until "3.5.0"'),
        ('since: "3.5", until: "3.5.0"', "later than since"),
    ],
)
@pytest.mark.parametrize("line", ["expect: [{{failure: a, {}}}]", 'flags: [{{flag: "-a", {}}}]'])
def test_bounds(told, line, entry, fragment):
    assert fragment in only(told, recipe(added=line.format(entry)))


@pytest.mark.parametrize(
    ("written", "fragment"),
    [
        ("models/matmul_f8.mlir", 'did you mean "matmul_f'),
        ("models/matmul", "Kinds: .mlir, .mlirbc, .onnx, .py"),
        ("dir.mlir", "is a folder"),
        ("pipe.mlir", "not a regular file"),
        ("gone.mlir", '"nothing"'),
        ("loop.mlir", "symbolic links"),
        ("x" * 300 + ".mlir", "name too long"),
    ],
)
def test_inputs(told, folder, written, fragment):
    Path("dir.mlir").mkdir()
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    assert fragment in only(told, recipe(input=f"input: {written}"))
