"""What people type who know other tools is refused with what stands for it here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Triage

TYPED = {
    "bisect add.mlir --from 3.1.0 --to 3.3.0": "--good/--bad",
    "bisect add.mlir --start 3.1.0 --end 3.3.0": "--good/--bad",
    "bisect add.mlir -g 3.1.0 -b 3.3.0": "--good/--bad",
    "bisect add.mlir good 3.1.0 bad 3.3.0": "--good/--bad",
    "bisect add.mlir old 3.1.0 new 3.3.0": "--good/--bad",
    "suspects add.mlir --from 3.1.0": "--good/--bad",
    "attribute add.mlir -g 3.1.0": "--good/--bad",
    "history add.mlir --from 3.1.0 --to 3.3.0": "--since/--until",
    "history add.mlir --start 3.1.0": "--since/--until",
    "nightly add.mlir --from 3.1.0 --to 3.3.0": "--baseline/--toolchain",
    "run add.mlir -t 3.3.0,3.2.0": "-t 3.3.0 -t 3.2.0",
    "bench add.mlir -t 3.3.0,3.2.0,3.1.0": "-t 3.3.0 -t 3.2.0 -t 3.1.0",
    "run add.mlir -t iree-base-compiler==3.3.0": "3.3.0",
    "why add.mlir -t iree==v3.3.0": "3.3.0",
    "bisect add.mlir --good 3.1.0..3.3.0": "--good 3.1.0 --bad 3.3.0",
    "bisect add.mlir --good abc1234 --bad def5678": "a revision of `triage bisect --repo DIR`",
    "bisect add.mlir --good HEAD~20": "a revision of `triage bisect --repo DIR`",
    "run add.mlir -t 0123456789abcdef0123456789abcdef01234567": "a revision of `triage bisect --repo DIR`",
    "add.mlir": "triage why add.mlir",
    "./add.mlir -t 3.3.0": "triage why ./add.mlir",
    "kernel.py:softmax": "triage why kernel.py:softmax",
    "run add.mlir --iree-hal-target-backends=rocm": (
        "triage run -- iree-compile MODEL --iree-hal-target-backends=..."
    ),
    "why add.mlir --compile-to=flow": (
        "triage why -- iree-compile MODEL --compile-to=..."
    ),
    "run programs": "triage run programs/*.mlir",
    "run add.mlir --backend rocm": "--backend rocm --chip gfx942",
    "recipe new r.yaml --input add.mlir --backend rocm": "--backend rocm --chip gfx942",
    "run add.mlir --json": "--format json",
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("line", TYPED)
def test_words_of_other_tools_name_what_stands_for_them_here(
    triage: Triage, tmp_path: Path, line: str
) -> None:
    (tmp_path / "programs").mkdir()
    for path in ("add.mlir", "programs/one.mlir"):
        (tmp_path / path).write_text("func.func @f() {\n  return\n}\n")
    done = triage(*line.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    message = " ".join(re.sub(r"[│╭╰─╮╯]", " ", done.stderr).split())
    assert f"here it is {TYPED[line]}" in message
    assert not list(tmp_path.glob("r.yaml"))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "line",
    ["run a.yaml --from 3.1.0", "run add.mlir -t banana", "bisct", "run a --nothing"],
)
def test_other_mistakes_get_no_answer_that_does_not_fit(
    triage: Triage, tmp_path: Path, line: str
) -> None:
    (tmp_path / "add.mlir").write_text("func.func @f() {\n  return\n}\n")
    done = triage(*line.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert "here it is" not in done.stderr
