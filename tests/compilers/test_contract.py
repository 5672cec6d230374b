"""Every family of the registry keeps the contract, with its compiler where one is
installed, and only its package and the registry know it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import triage
from tests.compilers.contract import CHECKS, Contract, Sample
from tests.conftest import ROOT
from tests.programs import write_program
from triage.compilers.registry import RecipesByFamily

SCALE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = OP %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
WORDS = re.compile(
    r"iree(?!-triage)|triton|xla|jaxlib|\.vmfb|\wlinalg_ext|num_stages", re.IGNORECASE
)
RIGHT = 'run: {inputs: ["4xf32=1 2 3 4"], expected: ["4xf32=2 4 6 8"]}'
WRONG = 'run: {inputs: ["4xf32=1 2 3 4"], expected: ["4xf32=2 4 6 9"]}'
SOFTMAX = (ROOT / "recipes" / "kernels" / "softmax.py").read_text()
SAMPLES = {
    "iree": Sample(
        "iree",
        "3.3.0",
        "scale.mlir",
        SCALE.replace("OP", "arith.addf"),
        "target: {backend: llvm-cpu}",
        RIGHT,
        WRONG,
        frozenset({"llvm-cpu"}),
    ),
    "triton": Sample(
        "triton",
        "3.2.0",
        "softmax.py",
        SOFTMAX,
        """target: {backend: cuda, chip: sm_90}
signature: {x_ptr: "*fp16:16", y_ptr: "*fp16", row_stride: i32, columns: i32}
constexprs: {BLOCK: 64}
options: {num_warps: 4}""",
        backends=frozenset({"cuda"}),
        broken=SOFTMAX.replace("tl.max(", "tl.no_such_function("),
    ),
    "xla": Sample(
        "xla",
        "0.10.1",
        "scale.mlir",
        SCALE.replace("OP", "stablehlo.add"),
        "target: {backend: cpu}",
        RIGHT,
        WRONG,
        frozenset({"cpu"}),
    ),
    "command": Sample(
        "command",
        "path:build",
        "input.txt",
        "text\n",
        'command: ["{toolchain}/copier", "{input}", "{output}"]\n'
        'version: {run: ["{toolchain}/copier", "--version"]}',
        broken="broken\n",
    ),
}


def test_every_family_has_a_sample() -> None:
    assert set(SAMPLES) == set(RecipesByFamily())


def test_no_other_package_names_a_family() -> None:
    """Docstrings and comments may show examples."""
    package = Path(triage.__file__).parent
    families = package / "compilers"
    for path in set(package.rglob("*.py")) - set(families.rglob("*.py")):
        text = path.read_text()
        if WORDS.search(text):
            tree = ast.parse(text)
            for node in ast.walk(tree):
                match node:
                    case ast.Expr(value=ast.Constant() as docstring):
                        docstring.value = ""
            assert not WORDS.search(ast.unparse(tree)), path


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("family", SAMPLES)
def test_a_family_keeps_the_contract(
    family: str, check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    getattr(Contract(SAMPLES[family], tmp_path), check)()


@pytest.mark.parametrize(
    "family",
    [
        pytest.param("iree", marks=(pytest.mark.real, pytest.mark.core)),
        pytest.param("triton", marks=(pytest.mark.real, pytest.mark.core)),
        pytest.param("xla", marks=pytest.mark.real),
        "command",
    ],
)
def test_a_compiler_keeps_the_contract(
    family: str, shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = "#!/bin/sh\n[ $# = 1 ] && echo 1.0 && exit"
    copies = '! grep broken "$1" && cp "$1" "$2"'
    write_program(tmp_path / "build" / "copier", f"{asked}\n{copies}\n")
    Contract(SAMPLES[family], tmp_path).compiles_and_repeats_its_failure()
