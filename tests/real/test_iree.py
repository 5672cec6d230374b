"""From recipe to culprit on released compilers of IREE: wheels, compiles, failures,
bisects, passes, linted limits, reductions, and all bundled recipes.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Asked, Triage
from tests.programs import write_program
from tests.real.statuses import VERSIONS, read_statuses

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
ATTENTION = RECIPES / "llama-attention-aggressive-fusion.yaml"
LIMIT = "--iree-stream-affinity-solver-max-iterations="


def write_variant(folder: Path, name: str, keys: str) -> Path:
    """Write a bundled recipe with more keys, and without what it expects."""
    text = (RECIPES / f"{name}.yaml").read_text().partition("expect:")[0]
    path = folder / "variant.yaml"
    path.write_text(text.replace("models/", f"{RECIPES}/models/") + f"{keys}\n")
    return path


@pytest.mark.core
def test_an_error_of_a_successful_compile_is_a_warning(
    asked: Asked, tmp_path: Path
) -> None:
    name = "sharded-llama-undeclared-device"
    recipe = write_variant(tmp_path, name, "phase: stream")
    [result] = asked("run", recipe, "-t", "3.3.0")["results"]
    assert (result["status"], result["failure"]) == ("passed", None)
    assert [warning["class"] for warning in result["warnings"]] == ["undeclared-device"]


@pytest.mark.core
def test_a_local_build_is_the_same_compiler_as_its_release(
    triage: Triage, asked: Asked
) -> None:
    info = asked("toolchains", "info", "3.3.0")
    local = asked("toolchains", "info", f"path:{info['root']}")
    assert local["identity"] == info["identity"]
    assert {"rocm", "cuda", "llvm-cpu"} <= set(info["backends"])
    assert "iree-opt-level" in info["flags"]
    assert info["phases"][0] == "start"
    triage("run", ATTENTION, "-t", "3.3.0")
    results = asked("run", ATTENTION, "-t", f"path:{info['root']}", code=1)["results"]
    assert all(result["cached"] for result in results)


def test_a_script_finds_the_compiler_of_a_release_in_its_path(
    asked: Asked, tmp_path: Path
) -> None:
    script = write_program(
        tmp_path / "check.sh",
        '#!/bin/sh\niree-compile --compile-to=input "$1" -o "$2" || exit 125\n'
        "iree-compile --version | grep -q 3.1.0 || exit 1\n",
    )
    (tmp_path / "program.mlir").write_text("module {}\n")
    words = ("--script", script, "--good", "3.1.0", "--bad", "3.3.0")
    program = (tmp_path / "program.mlir", "--backend", "llvm-cpu")
    found = asked("bisect", *program, *words)
    assert (found["before"]["name"], found["after"]["name"]) == ("3.1.0", "3.2.0")


@pytest.mark.parametrize(
    ("good", "bad", "code", "answer"),
    [
        ("3.1.0", "3.2.0", 0, {"suspect_passes": ["ScheduleExecutionPass"]}),
        ("3.2.0", "3.3.0", 3, "3.2.0 fails too"),
        ("3.2.0", "3.1.0", 3, "--good"),
    ],
)
def test_the_pass_that_fails_is_suspected_if_the_ir_is_equal_before_it(
    asked: Asked, good: str, bad: str, code: int, answer: Any
) -> None:
    words = ("attribute", RECIPES / "sharded-updates-short.yaml")
    attribution = asked(*words, "--good", good, "--bad", bad, code=code)
    if code:
        assert answer in attribution["reason"]
    else:
        answer |= {"status": "failing-pass", "first_phase": None}
        assert answer.items() <= attribution.items()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("sharded-for-loops", "3.13.0"),
        pytest.param("sharded-while-loops", "3.8.0", marks=pytest.mark.slow),
        pytest.param("sharded-for-loops", "3.8.0", marks=pytest.mark.slow),
        # fails without a message
        pytest.param("sharded-for-loops", "3.6.0", marks=pytest.mark.slow),
    ],
)
def test_the_suggested_limit_compiles_and_one_less_does_not(
    asked: Asked, tmp_path: Path, name: str, version: str
) -> None:
    report = asked("lint", RECIPES / f"{name}.yaml", "-t", version, code=1)
    [flag] = report["suggested_flags"]
    assert flag.startswith(LIMIT)
    messages = {row["rule"]: row["message"] for row in report["findings"]}
    assert flag in messages["solver-iterations"]
    least = int(flag.removeprefix(LIMIT))
    assert least > 128
    for allowed, family in (
        (least - 1, "non-convergence"),
        (4 * least, None),
        (least, None),
    ):
        path = write_variant(tmp_path, name, f'flags: ["{LIMIT}{allowed}"]')
        [result] = asked("run", path, "-t", version, code=int(bool(family)))["results"]
        assert (result["failure"] or {}).get("family") == family
    asked("lint", path, "-t", version)


@pytest.mark.slow
def test_a_regression_stays_a_regression(asked: Asked, tmp_path: Path) -> None:
    recipe, small = RECIPES / "cuda-matmul-f32.yaml", tmp_path / "small"
    words = ("-t", "3.3.0", "--good", "3.0.0", "--out", small)
    report = asked("reduce", recipe, *words)
    assert report["signature"] == "shared-memory-overflow"
    details = report["failure"]["details"]
    assert details["bytes_used"] > details["bytes_limit"] == 166912
    assert report["lines"]["after"] <= 10
    status = {row["toolchain"]["name"]: row["status"] for row in report["evidence"]}
    assert (status["3.0.0"], status["3.3.0"]) == ("passed", "failed")

    folder = Path(report["reproducer"])
    record = json.loads((folder / "reproducer.json").read_text())
    assert record["bad"]["commit"] == "9f4212cc3a64487c5bc7b003e5e197295a8fddf5"
    assert record["good"]["name"] == "3.0.0"
    readme = (folder / "README.md").read_text()
    assert "pip install iree-base-compiler==3.3.0" in readme
    assert (folder / "input.mlir").read_text() in readme

    [replayed] = asked("replay", small)["reproducers"]
    assert (replayed["status"], replayed["holds"]) == ("fixed", True)
    assert [*replayed["states"].values()] == ["reproduces", "fixed"]
    compared = asked("nightly", folder / "recipe.yaml", "-t", "3.3.0", "-b", "3.2.0")
    [entry] = compared["cases"]
    assert (entry["case"], entry["change"]) == ("cuda-matmul-f32-reduced", "known")


@pytest.mark.slow
def test_a_wrong_result_is_reduced(asked: Asked, tmp_path: Path) -> None:
    words = ("-t", "3.12.0", "--good", "3.13.0", "--out", tmp_path)
    found = asked("reduce", RECIPES / "masked-mean.yaml", *words)
    assert found["operations"]["after"] == 4
    assert found["oracle_calls"] <= 48


LETTERS = {
    **dict.fromkeys(("segfault", "assertion", "llvm-error"), "C"),
    "out-of-memory": "M",
    "timeout": "T",
}


@pytest.mark.slow
def test_every_release_has_its_measured_status_and_half_the_compiles_find_all_changes(
    asked: Asked,
) -> None:
    def letters(case: dict[str, Any]) -> dict[str, str]:
        seen = {name: status[0].upper() for name, status in case["statuses"].items()}
        for row in case["results"]:
            name = row["toolchain"]["name"]
            if seen[name] == "F":
                seen[name] = LETTERS.get(row["failure"]["class"], "F")
        return seen

    history = asked("history", RECIPES, "--until", VERSIONS[-1])
    cases = {case["case"]: case for case in history["cases"]}
    measured = read_statuses()
    assert cases.keys() == measured.keys()
    for name, case in cases.items():
        every = dict(zip(VERSIONS, measured[name], strict=True))
        assert letters(case).items() <= every.items()
        passing = [letter == "P" for letter in measured[name]]
        assert len(case["changes"]) >= sum(a != b for a, b in pairwise(passing))
    compiles = sum(case["compiles"] for case in cases.values())
    assert compiles <= len(cases) * len(VERSIONS) / 2
