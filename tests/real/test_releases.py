"""From recipe to culprit on released compilers: wheels, compiles, failure classes,
bisects.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked, Triage

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
ATTENTION = RECIPES / "llama-attention-aggressive-fusion.yaml"


@pytest.mark.core
def test_an_error_of_a_successful_compile_is_a_warning(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    text = (RECIPES / "sharded-llama-undeclared-device.yaml").read_text()
    text = (
        text[: text.index("expect:")].replace("models/", f"{RECIPES}/models/")
        + "phase: stream\n"
    )
    (tmp_path / "early.yaml").write_text(text)
    [result] = asked("run", tmp_path / "early.yaml", "-t", "3.3.0", code=0)["results"]
    assert (result["status"], result["failure"]) == ("passed", None)
    assert [warning["class"] for warning in result["warnings"]] == ["undeclared-device"]
    assert "promised" in triage("run", tmp_path / "early.yaml", "-t", "3.3.0").stdout


@pytest.mark.core
def test_an_untestable_release_is_never_bad(asked: Asked) -> None:
    words = ("--case", "dtype=f16", "--good", "3.2.0", "--bad", "3.3.0")
    bisection = asked("bisect", RECIPES / "llama-attention-o3.yaml", *words, code=3)
    assert bisection["status"] == "inconclusive"
    assert "3.2.0" in bisection["reason"]
    assert "--iree-opt-level" in bisection["reason"]


@pytest.mark.core
def test_a_local_build_is_the_same_compiler_as_its_release(
    triage: Triage, asked: Asked
) -> None:
    info = asked("toolchains", "info", "3.3.0", code=0)
    local = asked("toolchains", "info", f"path:{info['root']}", code=0)
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
    script, program = tmp_path / "check.sh", tmp_path / "program.mlir"
    program.write_text("module {}\n")
    script.write_text(
        '#!/bin/sh\niree-compile --compile-to=input "$1" -o "$2" || exit 125\n'
        "iree-compile --version | grep -q 3.1.0 || exit 1\n"
    )
    script.chmod(0o755)
    words = ["--script", script, "--good", "3.1.0", "--bad", "3.3.0"]
    options = ["--backend", "llvm-cpu"]
    found = asked("bisect", program, *options, *words, code=0)
    assert (found["before"]["name"], found["after"]["name"]) == ("3.1.0", "3.2.0")
