"""Remedies and variants on released compilers, from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from triage.compilers.iree import Iree
from triage.toolchains.registry import ToolchainRegistry

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
CUDA = RECIPES / "cuda-matmul-f32.yaml"
TILE = "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true"


def answer(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage(*words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def compiles_with(triage: Triage, tmp_path: Path, recipe: Path, version: str, *flags: str) -> bool:
    """Whether the recipe compiles with flags, asked by a recipe of its own."""
    text = re.sub(r"^(name: .*)$", r"\1-again", recipe.read_text(), count=1, flags=re.MULTILINE)
    text = text.replace("input: models", f"input: {RECIPES}/models").partition("expect:")[0]
    again = tmp_path / "again.yaml"
    again.write_text(f"{text}\nflags: {json.dumps(flags)}\n")
    return triage("run", again, "-t", version, "--fresh").returncode == 0


def test_a_compiler_tells_which_of_its_options_are_switches(shared_home: Path) -> None:
    registry = ToolchainRegistry(shared_home, {"iree": Iree()})
    known = registry.obtain(registry.place("3.3.0", "iree")).capabilities
    assert {"iree-codegen-llvmgpu-use-igemm", "iree-opt-data-tiling"} <= known.switches < known.flags
    assert not {"iree-opt-level", "iree-llvmcpu-stack-allocation-limit", "iree-hal-target-device"} & known.switches
    assert set(known.choices["iree-llvmcpu-vector-pproc-strategy"]) == {"peel", "mask", "none"}
    assert known.choices.keys() <= known.flags - known.switches


def test_shared_memory(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "remedy", CUDA, "-t", "3.3.0", "--good", "3.0.0")
    [remedy] = [one for one in told["remedies"] if one["flags"] == [TILE]]
    assert (remedy["input_change"], remedy["breaks"]) == (None, [])
    assert {"3.3.0", "3.0.0"} <= {one["name"] for one in remedy["verified_on"]}
    assert remedy["cost"]["cpu_seconds"] > 0
    assert (remedy["cost"]["dispatches"], remedy["cost"]["shared_bytes"]) == (1, 2104)
    [good] = [one for one in remedy["checks"] if one["revision"]["name"] == "3.0.0"]
    assert (good["cost_without"]["shared_bytes"], good["cost_with"]["shared_bytes"]) == (131072, 2104)
    assert told["failure"]["class"] == "shared-memory-overflow"
    assert 0 < told["tried"] <= 60


def test_nothing_to_vary(shared_home: Path, triage: Triage) -> None:
    done = triage("variants", CUDA, "-t", "3.0.0")
    assert (done.returncode, "--vary" in done.stderr) == (2, True)
    assert triage("variants", CUDA, "--vary", "chip").returncode == 2


@pytest.mark.slow
def test_a_remedy_holds_on_its_own_and_the_search_can_be_planned(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    planned = triage("remedy", CUDA, "-t", "3.3.0", "--dry-run", "--budget", "3")
    assert planned.returncode == 0
    assert len([line for line in planned.stdout.splitlines() if "iree-compile" in line]) == 3
    assert answer(triage, "remedy", CUDA, "-t", "3.3.0", "--budget", "1", code=3)["tried"] == 1
    told = answer(triage, "remedy", CUDA, "-t", "3.0.0", code=3)
    assert (told["remedies"], told["tried"]) == ([], 0)
    assert "compiles on 3.0.0" in told["reason"]
    told = answer(triage, "remedy", CUDA, "-t", "3.3.0")
    again = answer(triage, "remedy", CUDA, "-t", "3.3.0")
    assert again == told
    shown = " ".join(triage("remedy", CUDA, "-t", "3.3.0").stdout.split())
    assert TILE in shown
    assert compiles_with(triage, tmp_path, CUDA, "3.3.0", *told["remedies"][0]["flags"])
    assert not compiles_with(triage, tmp_path, CUDA, "3.3.0")


@pytest.mark.slow
def test_which_variants_fail(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "variants", RECIPES / "llama-attention-o3.yaml", "-t", "3.3.0")
    assert told["depends_on"] == ["dtype"]
    assert told["sentence"] == "It fails exactly for dtype=f16."
    assert [(one["values"]["dtype"], one["status"]) for one in told["results"]] == [("f16", "failed"), ("f8", "passed")]


@pytest.mark.slow
def test_the_stack_limit_is_the_smallest_power_of_two(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "remedy", RECIPES / "grouped-conv-cpu.yaml", "-t", "3.0.0")
    assert told["remedies"][0]["flags"] == ["--iree-llvmcpu-stack-allocation-limit=65536"]
    silencing = [one for one in told["remedies"] if one["only_silences_a_check"]]
    assert all("silence" in one["explanation"] for one in silencing)


@pytest.mark.slow
def test_the_smallest_iteration_limit(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    recipe = RECIPES / "sharded-while-loops.yaml"
    told = answer(triage, "remedy", recipe, "-t", "3.8.0", "--good", "3.4.0")
    [remedy] = told["remedies"]
    assert remedy["smallest"]
    [flag] = remedy["flags"]
    name, _, value = flag.partition("=")
    assert name == "--iree-stream-affinity-solver-max-iterations"
    assert 128 < int(value) <= 140
    assert [one["name"] for one in remedy["breaks"]] == ["3.4.0"]  # which has no such flag
    assert compiles_with(triage, tmp_path, recipe, "3.8.0", flag)
    assert not compiles_with(triage, tmp_path, recipe, "3.8.0", f"{name}={int(value) - 1}")


@pytest.mark.slow
def test_a_program_is_written_otherwise_where_no_flag_helps(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "remedy", RECIPES / "sharded-updates-short.yaml", "-t", "3.8.0")
    [remedy] = told["remedies"]
    assert remedy["flags"] == []
    assert remedy["input_change"] == "util.optimization_barrier before each flow.tensor.transfer"
    kept = Path(remedy["input"])
    assert kept.is_relative_to(shared_home)
    assert str(kept) in remedy["explanation"]
    assert kept.read_text().count("util.optimization_barrier") == 1


@pytest.mark.slow
def test_two_at_once_where_a_failure_hides_another(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "remedy", RECIPES / "sharded-updates-long.yaml", "-t", "3.8.0", "--budget", "30")
    best = told["remedies"][0]
    assert (len(best["flags"]), best["smallest"]) == (1, True)
    assert "barrier" in best["input_change"]
    assert told["promising"]


@pytest.mark.slow
def test_every_device_is_declared(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    recipe = RECIPES / "sharded-llama-undeclared-device.yaml"
    told = answer(triage, "remedy", recipe, "-t", "3.8.0")
    flags = [f"--iree-hal-target-device=hip[{ordinal}]" for ordinal in range(8)]
    assert told["remedies"][0]["flags"] == flags
    assert compiles_with(triage, tmp_path, recipe, "3.8.0", *flags)


@pytest.mark.slow
def test_a_kernel_fails_with_too_many_warps(shared_home: Path, triage: Triage) -> None:
    recipe = RECIPES / "triton-delta-rule.yaml"
    told = answer(triage, "variants", recipe, "-t", "3.2.0")
    assert told["sentence"] == "It fails exactly for num_warps=8 or 16."
    told = answer(triage, "remedy", recipe, "--case", "num_warps=8", "-t", "3.2.0")
    assert "num_warps=4" in [one["input_change"] for one in told["remedies"]]


@pytest.mark.slow
def test_what_runs_here_is_run(shared_home: Path, triage: Triage) -> None:
    told = answer(triage, "remedy", RECIPES / "grouped-conv-cpu.yaml", "-t", "3.0.0", "--good", "2.9.0", "--run")
    best = told["remedies"][0]
    cost, [before, *_] = best["cost"], [one["cost_without"] for one in best["checks"]]
    assert 0 < cost["run_ms_least"] <= cost["run_ms"] <= cost["run_ms_most"]
    assert before["run_ms"] > 0
    assert (before["dispatches"], cost["dispatches"]) == (3, 2)
    assert not [note for note in told["notes"] if "run time" in note]
    told = answer(triage, "remedy", CUDA, "-t", "3.3.0", "--run")
    assert told["remedies"][0]["cost"]["run_ms"] is None
    assert [note for note in told["notes"] if "this machine's processor" in note]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "version", "what"),
    [
        ("dynamic-matmul", "3.3.0", "every unknown dimension of its arguments made 64"),
        ("softmax-f16-cpu", "3.13.0", "f32 in the place of f16"),
        ("llama-attention-o3", "3.3.0", "every unknown dimension of its arguments made 64, of tensor<?x128xf16> 2048"),
    ],
)
def test_another_program_where_the_program_itself_cannot_be(
    shared_home: Path, triage: Triage, recipe: str, version: str, what: str
) -> None:
    case = ("--case", "dtype=f16") if "llama" in recipe else ()
    told = answer(triage, "remedy", RECIPES / f"{recipe}.yaml", *case, "-t", version, "--budget", "25")
    [found] = [one for one in told["remedies"] if one["input_change"] == what]
    assert Path(found["input"]).is_relative_to(shared_home)
    assert "program for one size" in found["explanation"] or "computes and stores other types" in found["explanation"]
    flags = [one for one in told["remedies"] if one["input_change"] is None]
    assert told["remedies"][: len(flags)] == flags  # the program itself goes before another
