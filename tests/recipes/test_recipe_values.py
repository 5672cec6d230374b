"""A mistake in a value is reported at its position, and the message contains what to
write instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.recipes.conftest import Told

BASE = "name: a\ninput: models/matmul.mlir\n"


@pytest.mark.parametrize(
    ("lines", "place", "fragment"),
    [
        (BASE + "target: {backend: cuda, devices: 1.5}", "3:34", "a whole number"),
        (BASE + "target: {backend: cuda, devices: 99999}", "3:34", "at most 1024"),
        (BASE + "target: cuda", "3:9", "write `target: {backend: cuda, chip: sm_86}`"),
        (
            BASE
            + 'target: {backend: cuda}\nexpect: [{failure: a, since: "3.5", until: "3.5.0"}]',
            "4:10",
            "later than since",
        ),
        (
            "name: a\ntarget: {backend: cuda}\ninput: models/matmul",
            "3:8",
            "Kinds: .mlir, .mlirbc, .onnx, .py",
        ),
        (
            "name: a\ntarget: {backend: cuda}\ninput: pipe.mlir",
            "3:8",
            "not a regular file",
        ),
        ("name: a\ntarget: {backend: cuda}\ninput: gone.mlir", "3:8", '"nothing"'),
        ("name: a\ntarget: {backend: cuda}\ninput: loop.mlir", "3:8", "symbolic links"),
        (
            f"name: a\ntarget: {{backend: cuda}}\ninput: {'x' * 300}.mlir",
            "3:8",
            "name too long",
        ),
    ],
)
def test_mistakes(
    told: Told, folder: Path, lines: str, place: str, fragment: str
) -> None:
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    [problem] = told(f"{lines}\n")
    assert problem.startswith(f"{place}: ")
    assert fragment in problem
