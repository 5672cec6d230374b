"""`triage lint` on the command line, with the installed compiler."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_cli import UNKNOWN_DEVICE
from tests.conftest import Asked

DEVICE = "--iree-hal-target-device="
SEVEN = UNKNOWN_DEVICE.replace("@missing", "@__device_7")


def test_an_undeclared_device_with_its_line_and_the_flags(
    home: Path, asked: Asked, workplace: Path
) -> None:
    (workplace / "seven.mlir").write_text(SEVEN)
    for count in (7, 8):
        flags = json.dumps([f"{DEVICE}hip[{at}]" for at in range(count)])
        (workplace / f"{count}.yaml").write_text(
            f"name: n{count}\ninput: seven.mlir\ntarget: {{backend: rocm}}\n"
            f"flags: {flags}\n"
        )
    answer = asked("lint", "7.yaml", code=1)
    [error] = [
        finding for finding in answer["findings"] if finding["severity"] == "error"
    ]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert "@__device_7" in error["message"]
    assert f"`{DEVICE}hip[7]`" in error["message"]
    assert answer["suggested_flags"] == [f"{DEVICE}hip[{at}]" for at in range(8)]
    declared = {each["name"]: bool(each["declared"]) for each in answer["devices"]}
    assert declared == {f"__device_{at}": at < 7 for at in range(8)}
    enough = asked("lint", "8.yaml")
    assert enough["suggested_flags"] == []
    assert "undeclared-device" not in [found["rule"] for found in enough["findings"]]
