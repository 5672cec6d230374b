"""Released compilers: the JSON of each command for a few bundled recipes, reductions,
and statuses of ONNX operators.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import ROOT, Triage
from tests.guards import golden
from tests.reduce.large_models import PATTERNS, model, recipe

pytestmark = pytest.mark.real
ATTENTION = "llama-attention-aggressive-fusion.yaml --case dtype=f16"
DELTA = "triton-delta-rule.yaml --case num_warps=8"
COMMANDS: dict[str, tuple[str, int]] = {
    "run-iree": ("run paged-gather.yaml dynamic-matmul.yaml -t 3.2.0 -t 3.3.0", 0),
    "run-stages": ("run masked-mean.yaml determinant.yaml -t 3.10.0 -t 3.13.0", 0),
    "nightly-iree": (
        "nightly llama-attention-aggressive-fusion.yaml paged-gather.yaml -t 3.3.0 -b 3.2.0",
        1,
    ),
    "nightly-runs": (
        "nightly masked-mean.yaml determinant.yaml -t 3.13.0 -b 3.10.0",
        0,
    ),
    "nightly-triton": (
        "nightly triton-delta-rule.yaml triton-softmax.yaml -t triton:3.2.0 -b triton:3.1.0",
        1,
    ),
    "bisect-iree": (f"bisect {ATTENTION} --good 3.2.0 --bad 3.3.0", 0),
    "bisect-triton": (f"bisect {DELTA} --good 3.1.0 --bad 3.2.0", 0),
    "history-iree": (
        "history i4-matvec.yaml paged-gather.yaml --since 3.2.0 --until 3.3.0",
        0,
    ),
    "lint-undeclared": ("lint sharded-llama-undeclared-device.yaml -t 3.13.0", 1),
    "lint-chain": ("lint globals-chain.yaml -t 3.3.0", 1),
    "attribute-attention": (f"attribute {ATTENTION} --good 3.2.0 --bad 3.3.0", 0),
    "attribute-i4": ("attribute i4-matvec.yaml --good 3.2.0 --bad 3.3.0", 0),
    "remedy-i4": ("remedy i4-matvec.yaml -t 3.3.0 --good 3.2.0", 0),
    "remedy-cuda": ("remedy cuda-matmul-f32.yaml -t 3.3.0", 0),
    "reduce-i4": ("reduce i4-matvec.yaml -t 3.3.0 --good 3.2.0", 0),
    "reduce-triton": (f"reduce {DELTA} -t 3.2.0 --good 3.1.0", 0),
}
REDUCTIONS = json.loads((golden.FOLDER / "reductions.json").read_text())
SLOW = {"remedy-cuda", "reduce-i4", "reduce-triton"}


def answer(triage: Triage, *words: object, code: int | None = None) -> Any:
    done = triage(*words, "--format", "json", timeout=1800)
    assert code in (None, done.returncode), done.stderr
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in COMMANDS
    ],
)
def test_a_command(
    triage: Triage, shared_home: Path, tmp_path: Path, name: str
) -> None:
    line, code = COMMANDS[name]
    words: list[object] = [
        ROOT / "recipes" / word if word.endswith(".yaml") else word
        for word in line.split()
    ]
    words += ["--out", tmp_path / "out"] if words[0] in ("nightly", "reduce") else []
    golden.check(name, answer(triage, *words, code=code), str(words[0]), tmp_path)


def test_bench(triage: Triage, shared_home: Path) -> None:
    path = ROOT / "recipes" / "row-sum.yaml"
    seen = answer(triage, "bench", path, "-t", "3.10.0", "-t", "3.13.0", "--time", "1s")
    golden.check("bench", seen, "bench")
    assert {row["verdict"] for row in seen["results"]} <= {
        None,
        "slower",
        "faster",
        "the same",
        "too noisy",
    }


@pytest.mark.slow
@pytest.mark.parametrize("known", REDUCTIONS)
def test_a_reduction_is_as_small_with_as_few_compiles(
    triage: Triage, shared_home: Path, tmp_path: Path, known: str
) -> None:
    """golden/reductions.json has the final lines and the compiles with one job, which
    may grow by a tenth.
    """
    name, _, sizes = known.partition(" of sizes ")
    (tmp_path / "model.mlir").write_text(model(name, 1000, sizes=int(sizes or 1)))
    (tmp_path / "recipe.yaml").write_text(recipe(name, "model.mlir"))
    pattern = PATTERNS[name]
    good = ("--good", pattern.good) if pattern.good else ()
    words = (
        tmp_path / "recipe.yaml",
        "-t",
        pattern.bad,
        *good,
        "--out",
        tmp_path / "out",
        "--jobs",
        "1",
    )
    seen = answer(triage, "reduce", *words, code=0)
    text = Path(seen["reproducer"], "input.mlir").read_text()
    limits = REDUCTIONS[known]
    found = {
        "lines": sum(bool(line.strip()) for line in text.splitlines()),
        "compiles": seen["oracle_calls"],
    }
    assert found["lines"] <= limits["lines"], found
    assert found["compiles"] <= 1.1 * limits["compiles"], found


def write_operators(folder: Path) -> None:
    """Write every tenth of the operator tests in `onnx`, as models with test data."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = [
            case
            for case in collect_testcases(None)
            if not case.name.endswith("_expanded")
        ]
    for case in sorted(cases, key=lambda case: case.name)[::10]:
        data = folder / case.name / "test_data_set_0"
        data.parent.mkdir(parents=True)
        onnx.save(case.model, data.parent / "model.onnx")
        values = {
            f"{kind}_{i}": value
            for kind, some in zip(("input", "output"), case.data_sets[0], strict=True)
            for i, value in enumerate(some)
        }
        # else only compile
        if all(
            isinstance(value, np.ndarray | np.generic | onnx.TensorProto)
            for value in values.values()
        ):
            data.mkdir()
            for name, value in values.items():
                tensor = (
                    value
                    if isinstance(value, onnx.TensorProto)
                    else onnx.numpy_helper.from_array(np.asarray(value))
                )
                (data / f"{name}.pb").write_bytes(tensor.SerializeToString())


@pytest.mark.slow
def test_statuses_of_onnx_operators(
    triage: Triage, shared_home: Path, tmp_path: Path
) -> None:
    write_operators(tmp_path / "models")
    path = tmp_path / "ops.yaml"
    path.write_text(
        "name: ops\ninput: models/*/model.onnx\ntarget: {backend: llvm-cpu}\nrun: {data: test_data_set_0}\n"
    )
    seen = {}
    for result in answer(triage, "run", path, "-t", "3.13.0")["results"]:
        failure = result["failure"] or {"stage": "", "class": ""}
        name = result["case"].removeprefix("ops[file=test_").removesuffix("]")
        seen[name] = f"{result['status']} {failure['stage']} {failure['class']}".strip()
    golden.check("onnx-operators", seen, "any")
