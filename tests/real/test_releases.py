"""The whole way on released compilers: recipes, wheels from the index, compiles, classes, pairs of releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
ATTENTION = RECIPES / "llama-attention-aggressive-fusion.yaml"


def answer(triage: Triage, *words: object, code: int) -> Any:
    done = triage(*words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_nightly_names_the_regressions_of_a_release_and_where_they_came_from(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    recipes = [ATTENTION, RECIPES / "globals-chain.yaml", RECIPES / "cuda-matmul-f32.yaml"]
    out = tmp_path / "out"
    night = answer(triage, "nightly", *recipes, "-t", "3.3.0", "-b", "3.2.0", "--bisect", "--out", out, code=1)
    told = {one["case"]: one for one in night["regressed"]}
    assert set(told) == {"llama-attention-aggressive-fusion[dtype=f16]", "globals-chain"}
    attention = told["llama-attention-aggressive-fusion[dtype=f16]"]
    assert attention["failure"]["details"] == {"bytes_used": 286720, "bytes_limit": 65536}
    came, went = attention["bisections"]
    assert (came["before"]["name"], came["after"]["name"], came["confirmed"]) == ("3.2.0", "3.3.0", True)
    assert (went["kind"], went["before"]["name"], went["after"]["name"]) == ("fix", "3.3.0", "3.4.0")
    assert came["after"]["commit"] == "9f4212cc3a64487c5bc7b003e5e197295a8fddf5"
    assert "286720" in (out / "nightly.md").read_text()
    suite = ElementTree.fromstring((out / "nightly.xml").read_text()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert json.loads((out / "nightly.json").read_text())["regressed"] == night["regressed"]


def test_a_class_that_changes_its_wording_keeps_its_signature(shared_home: Path, triage: Triage) -> None:
    results = answer(triage, "run", RECIPES / "cuda-matmul-f32.yaml", "-t", "3.3.0", "-t", "3.4.0", code=0)["results"]
    old, new = (one["failure"] for one in results)
    assert old["signature"] == new["signature"]
    assert old["headline"] != new["headline"]
    assert {one["details"]["bytes_used"] for one in (old, new)} == {229376}


def test_a_silent_failure_is_named_by_its_pass(shared_home: Path, triage: Triage) -> None:
    [result] = answer(triage, "run", RECIPES / "sharded-for-loops.yaml", "-t", "3.5.0", code=0)["results"]
    assert result["failure"]["family"] == "non-convergence"
    assert result["failure"]["pass"]
    assert result["failure"]["phase"] == "stream"


def test_a_crash_is_believed_because_it_happened_twice(shared_home: Path, triage: Triage) -> None:
    [result] = answer(triage, "run", RECIPES / "affinity-symbol-undeclared.yaml", "-t", "3.5.0", code=0)["results"]
    assert (result["status"], result["failure"]["class"], result["flaky"]) == ("xfail", "segfault", False)


def test_an_undeclared_device_is_named(shared_home: Path, triage: Triage) -> None:
    [result] = answer(triage, "run", RECIPES / "sharded-llama-undeclared-device.yaml", "-t", "3.3.0", code=0)["results"]
    assert result["failure"]["details"]["device"] == "__device_7"


def test_an_error_that_does_not_fail_the_compile_is_kept_and_told(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    text = (RECIPES / "sharded-llama-undeclared-device.yaml").read_text()
    text = text[: text.index("expect:")].replace("models/", f"{RECIPES}/models/") + "phase: stream\n"
    (tmp_path / "early.yaml").write_text(text)
    [result] = answer(triage, "run", tmp_path / "early.yaml", "-t", "3.3.0", code=0)["results"]
    assert (result["status"], result["failure"]) == ("passed", None)
    assert [one["class"] for one in result["warnings"]] == ["undeclared-device"]
    assert "compiled, but said" in triage("run", tmp_path / "early.yaml", "-t", "3.3.0").stdout


def test_an_untestable_release_is_never_bad(shared_home: Path, triage: Triage) -> None:
    words = ["bisect", RECIPES / "llama-attention-o3.yaml", "--case", "dtype=f16", "--good", "3.2.0", "--bad", "3.3.0"]
    found = answer(triage, *words, code=3)
    assert found["status"] == "inconclusive"
    assert "3.2.0 cannot be tested" in found["reason"]
    assert "--iree-opt-level" in found["reason"]


def test_the_release_that_fixed_it(shared_home: Path, triage: Triage) -> None:
    words = ["bisect", RECIPES / "cuda-matmul-f32.yaml", "--find", "fix", "--bad", "3.6.0", "--good", "3.8.0"]
    found = answer(triage, *words, code=0)
    assert (found["before"]["name"], found["after"]["name"], found["status"]) == ("3.6.0", "3.7.0", "culprit")
    assert found["confirmed"]


def test_a_local_build_is_the_same_compiler_as_its_release(shared_home: Path, triage: Triage) -> None:
    info = answer(triage, "toolchains", "info", "3.3.0", code=0)
    local = answer(triage, "toolchains", "info", f"path:{info['root']}", code=0)
    assert local["identity"] == info["identity"]
    assert {"rocm", "cuda", "llvm-cpu"} <= set(info["backends"])
    assert "iree-opt-level" in info["flags"]
    assert info["phases"][0] == "start"
    triage("run", ATTENTION, "-t", "3.3.0")
    results = answer(triage, "run", ATTENTION, "-t", f"path:{info['root']}", code=1)["results"]
    assert all(one["cached"] for one in results)
