"""A recipe of a pasted command line compiles, or fails, as the command line does in a shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.compilers.pasted_commands import pasted_commands, write_inputs
from tests.conftest import Triage
from tests.real.answers import json_answer
from triage.compilers.iree.command_line import read_command
from triage.compilers.registry import recipe_families
from triage.recipes.starter import new_recipe

pytestmark = [pytest.mark.real, pytest.mark.slow]
VERSION = "3.5.0"  # it knows --iree-hip-target, which most of these name


def test_recipes_compile_as_their_command_lines_do(
    shared_home: Path, triage: Triage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiler = Path(json_answer(triage, "toolchains", "info", VERSION)["program"])
    env = {**os.environ, "PATH": f"{compiler.parent}{os.pathsep}{os.environ['PATH']}"}

    def status(command: str) -> int:
        line = f"set -o pipefail; {command} -o out.vmfb"
        return subprocess.run(["bash", "-c", line], check=False, capture_output=True, env=env, cwd=tmp_path).returncode

    write_inputs(tmp_path)
    assert status("iree-compile m.mlir --iree-hal-target-backends=llvm-cpu --compile-to=executable-sources") == 0
    (tmp_path / "out.vmfb").rename(tmp_path / "exec.mlir")
    (tmp_path / "recipes").mkdir()
    expected: dict[str, bool] = {}
    by_shell: dict[str, bool] = {}
    for number, command in enumerate(pasted_commands()):
        start = read_command([command.text])
        assert start is not None
        name = f"pasted-{number}"
        source = start.input if start.input.suffix == ".mlir" else Path("m.mlir")
        (tmp_path / "recipes" / f"{name}.yaml").write_text(new_recipe(recipe_families(), name, f"../{source}", start))
        if command.shell not in by_shell:
            by_shell[command.shell] = status(command.shell) == 0
        expected[name] = by_shell[command.shell]
    # These are in the spelling of older versions. A recipe has the one of each version, so that it compiles.
    older = ("--iree-rocm-target", "target-backends=vulkan\n", "--iree-hal-cuda-llvm-target-arch")
    for number, command in enumerate(pasted_commands()):
        if any(spelling in f"{command.shell}\n" for spelling in older):
            expected[f"pasted-{number}"] = True
    done = triage("run", tmp_path / "recipes", "-t", VERSION, "--format", "json")
    statuses = {result["recipe"]: result["status"] == "passed" for result in json.loads(done.stdout)["results"]}
    assert statuses == expected, done.stderr
    assert sum(expected.values()) >= 49


def test_a_pass_pipeline_runs(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    recipe = tmp_path / "pipeline.yaml"
    command = ["iree-opt", "--pass-pipeline=builtin.module(func.func(canonicalize,cse))", tmp_path / "m.mlir"]
    assert triage("recipe", "new", recipe, "--", *command).returncode == 0
    [result] = json_answer(triage, "run", recipe, "-t", f"command:iree-base-compiler:{VERSION}")["results"]
    assert result["status"] == "passed"
