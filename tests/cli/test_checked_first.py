"""What a command is given is checked before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.compilers.registry import family_named
from triage.model.case import Target
from triage.model.errors import BadInput

PROGRAM = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
ENDS = ["--good", "3.2.0", "--bad", "3.3.0"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "words",
    [
        ["bisect", "m.mlir", "--repo", "."],
        ["nightly", "m.mlir", "-t", "3.3.0", "-b", "3.2.0", "--repo", "nowhere"],
        ["suspects", "m.mlir", *ENDS, "--repo", "nowhere"],
        ["run", "m.mlir", "--backend", "cuda", "--chip", "sm_68"],
        [
            "recipe",
            "new",
            "r.yaml",
            "--input",
            "m.mlir",
            "--backend",
            "rocm",
            "--chip",
            "gfx924",
        ],
        ["why", "empty.mlir"],
        ["run", "blank.mlir"],
    ],
)
def test_a_mistake_is_noticed_before_anything_is_compiled(
    triage: Triage, workplace: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    # nothing can be downloaded
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://localhost:9/")
    (workplace / "m.mlir").write_text(PROGRAM)
    (workplace / "empty.mlir").touch()
    (workplace / "blank.mlir").write_text(" \n\n")
    done = triage(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert not (workplace / "r.yaml").exists()


@pytest.mark.parametrize(
    ("family", "backend", "chip", "nearest"),
    [
        ("iree", "rocm", "gfx924", "gfx942"),
        ("iree", "rocm", "GFX942", "gfx942"),
        ("triton", "hip", "gfx924", "gfx942"),
    ],
)
def test_the_nearest_chip_is_named(
    family: str, backend: str, chip: str, nearest: str
) -> None:
    with pytest.raises(BadInput, match=f'did you mean "{nearest}"'):
        family_named(family).recipe.check_chip(Target(backend, chip))
