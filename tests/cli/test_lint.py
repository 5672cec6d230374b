"""`triage lint` on the command line, with the installed compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import GOOD, UNKNOWN_DEVICE, recipe
from tests.conftest import Triage

DEVICE = "--iree-hal-target-device="
HIP = "#hal.device.promise<@__device_7>"
SEVEN = UNKNOWN_DEVICE.replace("@missing", "@__device_7")


def lint(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage("lint", *words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_an_undeclared_device_with_its_line_and_the_flags(home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "work" / "seven.mlir").write_text(SEVEN)
    flags = [f"--flag={DEVICE}hip[{at}]" for at in range(7)]
    answer = lint(triage, "seven.mlir", *flags, code=1)
    [error] = [finding for finding in answer["findings"] if finding["severity"] == "error"]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert "@__device_7" in error["message"]
    assert f"`{DEVICE}hip[7]`" in error["message"]
    assert answer["suggested_flags"] == [f"{DEVICE}hip[{at}]" for at in range(8)]
    assert [finding["name"] for finding in answer["devices"]] == [f"__device_{at}" for at in range(8)]
    assert [finding["declared"] is None for finding in answer["devices"]] == [False] * 7 + [True]
    assert answer["devices"][7]["location"] == "seven.mlir:2:8"
    enough = lint(triage, "seven.mlir", *flags, f"--flag={DEVICE}hip[7]")
    assert enough["suggested_flags"] == []
    assert not [finding for finding in enough["findings"] if finding["rule"] == "undeclared-device"]


def test_a_recipe_is_linted_with_its_target(home: Path, triage: Triage, tmp_path: Path) -> None:
    path = recipe(tmp_path, "device", UNKNOWN_DEVICE)
    answer = lint(triage, path, code=1)
    assert [(finding["rule"], finding["case"]) for finding in answer["findings"] if finding["severity"] == "error"] == [
        ("undeclared-device", "device")
    ]
    done = triage("lint", path)
    assert done.returncode == 1
    assert "[undeclared-device] @missing" in done.stdout
    assert "--iree-hal-target-backends=llvm-cpu" in done.stdout
    assert "1 error, no warnings, no advice in 1 case" in done.stdout
    good = lint(triage, recipe(tmp_path, "good", GOOD))
    assert (good["findings"], good["suggested_flags"]) == ([], [])


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("promise<@missing>\n", "promise<@missing> // triage: ignore\n", 0),
        ("promise<@missing>\n", "promise<@missing> // triage: ignore[long-chain, undeclared-device]\n", 0),
        ("promise<@missing>\n", "promise<@missing> // triage: ignore[long-chain]\n", 1),
        ("  %0 = flow", "  // triage: ignore\n  %0 = flow", 0),
    ],
)
def test_a_comment_silences_its_line(home: Path, triage: Triage, tmp_path: Path, old: str, new: str, found: int) -> None:
    assert old in UNKNOWN_DEVICE
    answer = lint(triage, recipe(tmp_path, "device", UNKNOWN_DEVICE.replace(old, new, 1)), code=found)
    assert len([finding for finding in answer["findings"] if finding["severity"] == "error"]) == found
    assert answer["cases"][0]["silenced"] == 1 - found


def test_sarif_has_what_github_reads(home: Path, triage: Triage, tmp_path: Path) -> None:
    recipe(tmp_path / "work", "device", UNKNOWN_DEVICE)
    done = triage("lint", "device.yaml", "--format", "sarif")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["version"], "sarif-2.1.0" in answer["$schema"]) == ("2.1.0", True)
    [run] = answer["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all({"id", "shortDescription", "defaultConfiguration"} == set(rule) for rule in rules)
    [result] = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "undeclared-device"
    assert (result["level"], "@missing" in result["message"]["text"]) == ("error", True)
    [place] = [finding["physicalLocation"] for finding in result["locations"]]
    assert place == {"artifactLocation": {"uri": "device.mlir"}, "region": {"startLine": 2, "startColumn": 8}}


def test_an_unreadable_program_does_not_hide_other_findings(home: Path, triage: Triage, tmp_path: Path) -> None:
    good, broken = recipe(tmp_path, "good", GOOD), recipe(tmp_path, "broken", GOOD.replace("arith.addf", "arith.adf"))
    done = triage("lint", good, tmp_path / "broken.mlir", "--format", "json")
    assert done.returncode == 2
    assert [finding["case"] for finding in json.loads(done.stdout)["cases"]] == ["good"]
    assert "broken.mlir:2:8: error: custom op 'arith.adf' is unknown" in done.stderr
    assert triage("lint", broken).returncode == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["lint"], 2, "INPUT|RECIPE"),
        (["lint", "nothing.mlir"], 2, "nothing.mlir"),
        (["lint", "{folder}/note.txt"], 2, ".mlir"),
        (["lint", "{folder}/empty.mlirbc"], 2, "empty.mlirbc"),
        (["lint", "{folder}/good.mlir", "-t", "banana"], 2, "is not a revision"),
        (["lint", "{folder}/good.mlir", "-t", "path:/nowhere"], 4, "/nowhere does not exist"),
        (["lint", "{folder}/good.mlir", "--flag", "O3"], 2, "O3"),
        (["lint", "{folder}/kernel.yaml"], 2, "no lint rules for compiler command"),
    ],
)
def test_bad_arguments_end_with_the_right_code(
    home: Path, triage: Triage, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "note.txt").write_text("x")
    (tmp_path / "empty.mlirbc").write_bytes(b"ML\xefR\x00")
    (tmp_path / "good.mlir").write_text(GOOD)
    (tmp_path / "kernel.py").write_text("x")
    (tmp_path / "kernel.yaml").write_text('name: kernel\ncompiler: command\ncommand: [cc, "{input}"]\ninput: kernel.py\n')
    done = triage(*[word.format(folder=tmp_path) for word in words])
    assert done.returncode == code, done.stderr
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
