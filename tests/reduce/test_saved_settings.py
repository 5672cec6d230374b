"""The settings of a reduction that is resumed, intact and damaged."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bisect.letters import case_named
from tests.execution.damage import do, each_damage
from triage.compilers.base import KernelSpec
from triage.model.case import Case, Flag, Target
from triage.reduce.frontends.text import TextProgram
from triage.reduce.program import ReducedCase
from triage.reduce.result import ReductionFolder
from triage.toolchains.home import Home

KERNEL = KernelSpec(
    "add",
    {"x": "*fp32"},
    {"BLOCK": 64, "FAST": True, "SCALE": 1.5},
    {"x": {"divisibility": 16}},
    {"num_warps": 4},
)
CHANGED = {
    "flags": (Flag("--a", "3.0.0"), Flag("--b")),
    "target": Target("rocm", "gfx942", 2),
    "phase": "flow",
}


@pytest.fixture
def case() -> Case:
    return replace(case_named("case"), compiler="triton", spec=KERNEL)


@pytest.fixture
def folder(case: Case, tmp_path: Path) -> ReductionFolder:
    folder = ReductionFolder(Home(tmp_path), "key")
    folder.save(
        ReducedCase(TextProgram(["x"], case.input.kind, "py"), replace(case, **CHANGED))
    )
    return folder


def test_saved_settings_are_read_as_they_were_written(
    folder: ReductionFolder, case: Case
) -> None:
    [program] = folder.path.glob("best-*.py")
    assert folder.saved_state(replace(case, spec=None)) == (
        program,
        replace(case, **CHANGED),
    )
    program.write_text("y")
    assert folder.saved_state(case) is None


def test_the_saved_state_of_another_reduction_is_not_taken(
    folder: ReductionFolder, case: Case, tmp_path: Path
) -> None:
    other = ReductionFolder(Home(tmp_path), "other")
    shutil.rmtree(other.path)
    shutil.copytree(folder.path, other.path)
    assert other.saved_state(case) is None


@each_damage
def test_damaged_settings_count_as_not_saved_or_still_have_their_types(
    folder: ReductionFolder, case: Case, damage: str
) -> None:
    do(damage, folder.path / "settings.json")
    saved = folder.saved_state(case)
    assert saved is None or damage == "a flipped bit"
