"""XLA on real releases of jaxlib: a crash and a wrong result, from the first run to the
reproducer.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Asked

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes/xla"


def classes(found: Any) -> dict[str, str]:
    return {
        row["toolchain"]["name"]: (row["failure"] or {"class": row["status"]})["class"]
        for row in found["results"]
    }


@pytest.mark.slow
def test_a_crash_is_bisected_reduced_and_repeated(
    asked: Asked, workplace: Path
) -> None:
    recipe = RECIPES / "unused-loop.yaml"
    ends = ("--good", "0.8.1", "--bad", "0.8.0")
    found = asked("bisect", recipe, "--find", "fix", *ends)
    assert (found["before"]["name"], found["after"]["name"]) == ("0.8.0", "0.8.1")
    assert found["confirmed"]
    words = ("-t", "0.8.0", "--good", "0.8.1", "--out", workplace)
    small = asked("reduce", recipe, *words)
    assert small["operations"]["after"] <= 21
    folder = workplace / Path(small["reproducer"]).name
    for version, status in (("0.8.0", False), ("0.8.1", True)):
        [root] = (Path(os.environ["TRIAGE_HOME"]) / "toolchains").glob(
            f"venv-jaxlib-*-{version}-*"
        )
        env = {**os.environ, "PYTHON": str(root / "bin/python")}
        ended = subprocess.run(
            ["sh", folder / "repro.sh"],
            env=env,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert (ended.returncode == 0) is status


PRINTS = """import argparse
import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
size = parser.parse_args().size
print(jax.jit(jnp.tanh).lower(jnp.ones(size)).as_text())
"""


def test_a_generator_is_run_once_by_the_newest_jax(
    shared_home: Path, asked: Asked, workplace: Path
) -> None:
    (workplace / "model.py").write_text(PRINTS)
    (workplace / "r.yaml").write_text(
        "name: r\ncompiler: xla\ninput: model.py\nargs: {size: 7}\n"
        "target: {backend: cpu}\n"
    )
    results = asked("run", "r.yaml", "-t", "0.8.1", "-t", "0.10.1")
    assert classes(results) == {"0.8.1": "passed", "0.10.1": "passed"}
    [program] = (shared_home / "inputs").glob("*.mlir")
    assert "tensor<7xf32>" in program.read_text()


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


def test_a_script_runs_as_it_is_and_its_numbers_are_compared(
    asked: Asked, workplace: Path
) -> None:
    (workplace / "settle.py").write_text(UNUSED)
    found = asked("run", "settle.py", "-t", "xla:0.8.0", "-t", "xla:0.8.1", code=1)
    assert [row["status"] for row in found["results"]] == ["failed", "passed"]
    assert found["results"][0]["failure"]["class"] in ("assertion", "segfault")
    (workplace / "energy.py").write_text(ENERGY)
    (workplace / "r.yaml").write_text(
        "name: energy\ncompiler: xla\ninput: energy.py\ntarget: {backend: cpu}\n"
        "run: {reference: {toolchain: 0.10.1}}\n"
    )
    found = asked("run", "r.yaml", "-t", "0.10.1", "-t", "0.10.2", code=1)
    assert classes(found) == {"0.10.1": "passed", "0.10.2": "wrong-result"}
    assert found["results"][1]["failure"]["details"]["expected"] == 837
    found = asked("attribute", "r.yaml", "--good", "0.10.1", "--bad", "0.10.2")
    assert found["pass"]["name"] == "fusion"
    found = asked("bisect", "energy.py", "--good", "0.10.1", "--bad", "0.10.2")
    assert (found["status"], found["after"]["name"]) == ("culprit", "0.10.2")
    found = asked("why", "energy.py", "-t", "0.10.2", "--budget", "1s", code=1)
    assert found["failure"]["class"] == "wrong-result"


HLO = """HloModule double, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT y = f32[4]{0} add(x, x)
}
"""


@pytest.mark.parametrize(
    ("flags", "inputs", "status", "code"),
    [
        ("[]", "4xf32=1 2 3 4", "passed", 0),
        ("[]", "4xf32=1 2 3 5", "wrong-result", 1),
        ("['--xla_no_such_option=1']", "4xf32=1", "unknown-flag", 3),
    ],
)
def test_the_text_of_hlo_is_compiled_and_run(
    asked: Asked,
    workplace: Path,
    flags: str,
    inputs: str,
    status: str,
    code: int,
) -> None:
    (workplace / "double.hlo").write_text(HLO)
    (workplace / "r.yaml").write_text(
        f"name: double\ncompiler: xla\ninput: double.hlo\ntarget: {{backend: cpu}}\nflags: {flags}\n"
        f"run: {{inputs: ['{inputs}'], expected: ['4xf32=2 4 6 8']}}\n"
    )
    found = asked("run", "r.yaml", "-t", "0.8.0", "-t", "0.10.2", code=code)
    assert classes(found) == {"0.8.0": status, "0.10.2": status}
