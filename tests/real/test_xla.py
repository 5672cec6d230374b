"""XLA on real releases of jaxlib: a crash and a wrong result, from the first run to the
reproducer, and a process that compiles one program after another.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT, Asked
from triage.compilers.registry import load_cases
from triage.execution.engine import open_engine
from triage.execution.persistent_workers import PersistentWorkers
from triage.execution.plan import plan_task
from triage.execution.task import ProbeJob
from triage.model.execution import Stage

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes" / "xla"
PRINTS = """import argparse
import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
size = parser.parse_args().size
print(jax.jit(jnp.tanh).lower(jnp.ones(size)).as_text())
"""
UNUSED = """import jax
import jax.numpy as jnp


@jax.jit
def settle():
    def body(state):
        first, _ = state
        jax.lax.fori_loop(0, 5, lambda i, s: (s[0], s[1] + 1), (jnp.int32(0), jnp.int32(0)))
        return first, jnp.zeros(3, jnp.int32)

    start = jnp.zeros(3, jnp.int32)
    return jax.lax.while_loop(lambda s: jnp.any(s[1] != s[0]), body, (start, start))[1]


print(settle())
"""
ENERGY = """import time

import jax
import jax.numpy as jnp
from jax import lax


@jax.jit
def energy(matrix):
    factor = (jnp.arange(40000, dtype=jnp.float32) % 7.0) + 1.0
    points = jnp.broadcast_to(factor[:, None], (40000, 3))
    product = lax.dot_general(matrix, points, (((1,), (1,)), ((), ())))
    return jnp.sum(product * product, axis=0) / (factor * factor)


result = energy(jnp.arange(1, 10, dtype=jnp.float32).reshape(3, 3))
print("JAX", jax.__version__, "at", time.time(), "took", time.process_time(), "s")
print("last", result[-1], "same", bool((result == result[0]).all()))
"""
HLO = """HloModule double, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT y = f32[4]{0} add(x, x)
}
"""


def write_recipe(folder: Path, source: str, text: str, keys: str = "") -> Path:
    (folder / source).write_text(text)
    recipe = folder / "r.yaml"
    start = f"name: r\ncompiler: xla\ninput: {source}\ntarget: {{backend: cpu}}"
    recipe.write_text(f"{start}\n{keys}\n")
    return recipe


def classes(answer: Any) -> list[str]:
    """The class of each failure, or the status without one."""
    rows = answer["results"]
    return [
        row["failure"]["class"] if row["failure"] else row["status"] for row in rows
    ]


@pytest.mark.slow
def test_a_crash_is_bisected_reduced_and_repeated(
    asked: Asked, shared_home: Path, workplace: Path
) -> None:
    recipe = RECIPES / "unused-loop.yaml"
    ends = ("--good", "0.8.1", "--bad", "0.8.0")
    found = asked("bisect", recipe, "--find", "fix", *ends)
    assert (found["before"]["name"], found["after"]["name"]) == ("0.8.0", "0.8.1")
    assert found["confirmed"]
    words = ("-t", "0.8.0", "--good", "0.8.1", "--out", workplace)
    small = asked("reduce", recipe, *words)
    assert small["operations"]["after"] <= 21
    script = workplace / Path(small["reproducer"]).name / "repro.sh"
    for version, is_right in (("0.8.0", False), ("0.8.1", True)):
        toolchains = shared_home / "toolchains"
        [python] = toolchains.glob(f"venv-jaxlib-*-{version}-*/bin/python")
        env = {**os.environ, "PYTHON": str(python)}
        ended = subprocess.run(
            ["sh", script], env=env, capture_output=True, timeout=120
        )
        assert (ended.returncode == 0) is is_right


def test_a_generator_is_run_once_by_the_newest_jax(
    shared_home: Path, asked: Asked, workplace: Path
) -> None:
    recipe = write_recipe(workplace, "model.py", PRINTS, "args: {size: 7}")
    results = asked("run", recipe, "-t", "0.8.1", "-t", "0.10.1")
    assert classes(results) == ["passed", "passed"]
    [program] = (shared_home / "inputs").glob("*.mlir")
    assert "tensor<7xf32>" in program.read_text()


def test_a_script_runs_as_it_is_and_its_numbers_are_compared(
    asked: Asked, workplace: Path
) -> None:
    (workplace / "settle.py").write_text(UNUSED)
    found = asked("run", "settle.py", "-t", "xla:0.8.0", "-t", "xla:0.8.1", code=1)
    crashed, passed = classes(found)
    assert crashed in ("assertion", "segfault")
    assert passed == "passed"
    reference = "run: {reference: {toolchain: 0.10.1}}"
    recipe = write_recipe(workplace, "energy.py", ENERGY, reference)
    found = asked("run", recipe, "-t", "0.10.1", "-t", "0.10.2", code=1)
    assert classes(found) == ["passed", "wrong-result"]
    assert found["results"][1]["failure"]["details"]["expected"] == 837
    ends = ("--good", "0.10.1", "--bad", "0.10.2")
    assert asked("attribute", recipe, *ends)["pass"]["name"] == "fusion"
    found = asked("bisect", "energy.py", *ends)
    assert (found["status"], found["after"]["name"]) == ("culprit", "0.10.2")
    found = asked("why", "energy.py", "-t", "0.10.2", code=1)
    assert found["failure"]["class"] == "wrong-result"


@pytest.mark.parametrize(
    ("keys", "status", "code"),
    [
        ("run: {inputs: ['4xf32=1 2 3 4'], expected: ['4xf32=2 4 6 8']}", "passed", 0),
        ("run: {inputs: ['4xf32=1'], expected: ['4xf32=2 4 6 8']}", "wrong-result", 1),
        ("flags: ['--xla_no_such_option=1']", "unknown-flag", 3),
    ],
)
def test_the_text_of_hlo_is_compiled_and_run(
    asked: Asked, workplace: Path, keys: str, status: str, code: int
) -> None:
    recipe = write_recipe(workplace, "double.hlo", HLO, keys)
    found = asked("run", recipe, "-t", "0.8.0", "-t", "0.10.2", code=code)
    assert classes(found) == [status] * 2


def serves_in(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process is a persistent worker of this test. Another test of
    this process may have left a child, which may have ended.
    """
    try:
        return str(folder) in process.cwd() and "serve" in process.cmdline()
    except psutil.Error:
        return False


def test_a_persistent_worker_says_what_new_processes_say(tmp_path: Path) -> None:
    [case] = load_cases([RECIPES / "thin-matmul.yaml"])
    (tmp_path / "broken.mlir").write_text("func.func @main() { return %x }")
    broken = replace(case, input=replace(case.input, path=tmp_path / "broken.mlir"))
    with open_engine([case]) as engine:
        bad = engine.registry.obtain(engine.registry.resolve("0.10.2", "xla"))
        task, invalid = [plan_task(engine, each, bad) for each in (case, broken)]
        fresh = engine.probe(ProbeJob(case, engine.registry.ref_of(bad))).outcome
        with closing(PersistentWorkers(tmp_path, engine.stop)) as workers:
            first, second, third = [
                workers.run(each, tmp_path / str(number), (0, 85, 170))
                for number, each in enumerate((task, invalid, task))
            ]
            children = psutil.Process().children(recursive=True)
            [worker] = [child for child in children if serves_in(child, tmp_path)]
            worker.kill()
            # wait without reaping, which is left to the program
            os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
            assert workers.run(task, tmp_path / "killed") is None
            assert workers.run(task, tmp_path / "anew") is not None
        assert not worker.is_running()
    assert second.stage is Stage.COMPILE
    assert len(first.files) == 3
    for answer in (first, third):
        outcome = answer.probe().outcome
        assert outcome.failure.signature == fresh.failure.signature
