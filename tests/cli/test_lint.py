"""`triage lint` on the command line, with the installed compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import UNKNOWN_DEVICE, recipe
from tests.conftest import Triage

DEVICE = "--iree-hal-target-device="
SEVEN = UNKNOWN_DEVICE.replace("@missing", "@__device_7")


def lint(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage("lint", *words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_an_undeclared_device_with_its_line_and_the_flags(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    (tmp_path / "work" / "seven.mlir").write_text(SEVEN)
    flags = [f"--flag={DEVICE}hip[{at}]" for at in range(7)]
    answer = lint(triage, "seven.mlir", *flags, code=1)
    [error] = [
        finding for finding in answer["findings"] if finding["severity"] == "error"
    ]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert "@__device_7" in error["message"]
    assert f"`{DEVICE}hip[7]`" in error["message"]
    assert answer["suggested_flags"] == [f"{DEVICE}hip[{at}]" for at in range(8)]
    assert [finding["name"] for finding in answer["devices"]] == [
        f"__device_{at}" for at in range(8)
    ]
    assert [finding["declared"] is None for finding in answer["devices"]] == [
        False
    ] * 7 + [True]
    assert answer["devices"][7]["location"] == "seven.mlir:2:8"
    enough = lint(triage, "seven.mlir", *flags, f"--flag={DEVICE}hip[7]")
    assert enough["suggested_flags"] == []
    assert not [
        finding
        for finding in enough["findings"]
        if finding["rule"] == "undeclared-device"
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("promise<@missing>\n", "promise<@missing> // triage: ignore\n", 0),
        (
            "promise<@missing>\n",
            "promise<@missing> // triage: ignore[long-chain, undeclared-device]\n",
            0,
        ),
        ("promise<@missing>\n", "promise<@missing> // triage: ignore[long-chain]\n", 1),
        ("  %0 = flow", "  // triage: ignore\n  %0 = flow", 0),
    ],
)
def test_a_comment_silences_its_line(
    home: Path, triage: Triage, tmp_path: Path, old: str, new: str, found: int
) -> None:
    assert old in UNKNOWN_DEVICE
    answer = lint(
        triage,
        recipe(tmp_path, "device", UNKNOWN_DEVICE.replace(old, new, 1)),
        code=found,
    )
    assert (
        len(
            [
                finding
                for finding in answer["findings"]
                if finding["severity"] == "error"
            ]
        )
        == found
    )
    assert answer["cases"][0]["silenced"] == 1 - found


def test_sarif_has_what_github_reads(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    recipe(tmp_path / "work", "device", UNKNOWN_DEVICE)
    done = triage("lint", "device.yaml", "--format", "sarif")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["version"], "sarif-2.1.0" in answer["$schema"]) == ("2.1.0", True)
    [run] = answer["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(
        {"id", "shortDescription", "defaultConfiguration"} == set(rule)
        for rule in rules
    )
    [result] = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "undeclared-device"
    message = result["message"]["text"]
    assert (result["level"], "@missing" in message) == ("error", True)
    # declares a device without a name, and does not allow others
    assert "`--iree-hal-target-backends=llvm-cpu`" in message
    [place] = [finding["physicalLocation"] for finding in result["locations"]]
    assert place == {
        "artifactLocation": {"uri": "device.mlir"},
        "region": {"startLine": 2, "startColumn": 8},
    }


def test_cases_that_need_different_flags_keep_their_own(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    (folder / "numbered.mlir").write_text(
        UNKNOWN_DEVICE.replace("@missing", "@__device_1")
    )
    (folder / "named.mlir").write_text(UNKNOWN_DEVICE)
    answer = lint(
        triage, "numbered.mlir", "named.mlir", f"--flag={DEVICE}local", code=1
    )
    flags = [case["suggested_flags"] for case in answer["cases"]]
    assert answer["suggested_flags"] == []
    assert [
        f"{DEVICE}local[0]" in flags[0],
        f"{DEVICE}__device_0=local[0]" in flags[1],
    ] == [True, True]
    assert (
        lint(triage, "named.mlir", f"--flag={DEVICE}local", code=1)["suggested_flags"]
        == flags[1]
    )
