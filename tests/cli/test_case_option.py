"""Which case `--case` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.cli.context import one_case
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.recipes import load_recipes

TEXT = """name: m
input: m.mlir
target: {backend: cuda, chip: "${chip}"}
flags: ["--iree-x=${dtype}"]
matrix: {chip: [sm_80, sm_90], dtype: [f16, f8]}
"""


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("m[chip=sm_80,dtype=f8]", "chip=sm_80,dtype=f8"),
        ("chip=sm_80,dtype=f8", "chip=sm_80,dtype=f8"),
        ("dtype=f8,chip=sm_80", "chip=sm_80,dtype=f8"),
        ("dtype=f8, chip=sm_90", "chip=sm_90,dtype=f8"),
    ],
)
def test_keys_and_values_tell_a_case_in_any_order(tmp_path: Path, said: str, means: str) -> None:
    assert one_case(recipe(tmp_path), said).name == f"m[{means}]"


@pytest.mark.parametrize(("said", "why"), [("dtype=f8", "which case"), ("dtype=f4", "there is no case"), (None, "which case")])
def test_what_fits_several_or_none_is_asked_about(tmp_path: Path, said: str | None, why: str) -> None:
    with pytest.raises(BadInput, match=why) as told:
        one_case(recipe(tmp_path), said)
    assert "m[chip=sm_90,dtype=f8]" in str(told.value)


def recipe(folder: Path) -> tuple[Case, ...]:
    (folder / "m.mlir").write_text("")
    (folder / "m.yaml").write_text(TEXT)
    return tuple(load_recipes([folder / "m.yaml"]))
