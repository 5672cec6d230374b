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


def test_an_undeclared_device_with_its_line_and_the_flags(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    (folder / "seven.mlir").write_text(SEVEN)
    for count in (7, 8):
        flags = json.dumps([f"{DEVICE}hip[{at}]" for at in range(count)])
        (folder / f"{count}.yaml").write_text(
            f"name: n{count}\ninput: seven.mlir\ntarget: {{backend: rocm}}\n"
            f"flags: {flags}\n"
        )
    answer = lint(triage, "7.yaml", code=1)
    [error] = [
        finding for finding in answer["findings"] if finding["severity"] == "error"
    ]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert "@__device_7" in error["message"]
    assert f"`{DEVICE}hip[7]`" in error["message"]
    assert answer["suggested_flags"] == [f"{DEVICE}hip[{at}]" for at in range(8)]
    devices = answer["devices"]
    assert [device["name"] for device in devices] == [
        f"__device_{at}" for at in range(8)
    ]
    assert [device["name"] for device in devices if not device["declared"]] == [
        "__device_7"
    ]
    assert devices[7]["location"] == "seven.mlir:2:8"
    enough = lint(triage, "8.yaml")
    assert enough["suggested_flags"] == []
    assert "undeclared-device" not in [found["rule"] for found in enough["findings"]]
