"""`triage lint` on the command line, with the installed compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.test_cli import UNKNOWN_DEVICE
from tests.conftest import Triage

DEVICE = "--iree-hal-target-device="
SEVEN = UNKNOWN_DEVICE.replace("@missing", "@__device_7")


def lint(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage("lint", *words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def recipe(folder: Path, name: str, program: str, *flags: str) -> Path:
    (folder / f"{name}.mlir").write_text(program)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ninput: {name}.mlir\ntarget: {{backend: llvm-cpu}}\n"
        f"flags: {json.dumps(flags)}\n"
    )
    return path


def test_an_undeclared_device_with_its_line_and_the_flags(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    flags = [f"{DEVICE}hip[{at}]" for at in range(8)]
    path = recipe(tmp_path / "work", "seven", SEVEN, *flags[:7])
    answer = lint(triage, path, code=1)
    [error] = [
        finding for finding in answer["findings"] if finding["severity"] == "error"
    ]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert "@__device_7" in error["message"]
    assert f"`{DEVICE}hip[7]`" in error["message"]
    assert answer["suggested_flags"] == flags
    assert [finding["name"] for finding in answer["devices"]] == [
        f"__device_{at}" for at in range(8)
    ]
    assert [finding["declared"] is None for finding in answer["devices"]] == [
        False
    ] * 7 + [True]
    assert answer["devices"][7]["location"] == "seven.mlir:2:8"
    enough = lint(triage, recipe(tmp_path / "work", "seven", SEVEN, *flags))
    assert enough["suggested_flags"] == []
    assert not [
        finding
        for finding in enough["findings"]
        if finding["rule"] == "undeclared-device"
    ]


def test_cases_that_need_different_flags_keep_their_own(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    one = UNKNOWN_DEVICE.replace("@missing", "@__device_1")
    numbered = recipe(folder, "numbered", one, f"{DEVICE}local")
    named = recipe(folder, "named", UNKNOWN_DEVICE, f"{DEVICE}local")
    answer = lint(triage, numbered, named, code=1)
    flags = [case["suggested_flags"] for case in answer["cases"]]
    assert answer["suggested_flags"] == []
    assert [
        f"{DEVICE}local[0]" in flags[0],
        f"{DEVICE}__device_0=local[0]" in flags[1],
    ] == [True, True]
    assert lint(triage, named, code=1)["suggested_flags"] == flags[1]
