"""`lint --graph` prints devices and transfers as a Mermaid flowchart."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT, Triage


def test_devices_and_transfers_are_in_the_flowchart(home: Path, triage: Triage) -> None:
    done = triage("lint", ROOT / "recipes" / "sharded-llama.yaml", "--graph")
    first, *lines = done.stdout.splitlines()
    assert first == "flowchart TD"
    assert any("@__device_1" in line for line in lines)
    assert any("==>" in line and "moved" in line for line in lines)
    names = {line.split("[")[0].strip() for line in lines if '["' in line and "subgraph" not in line}
    assert all(arrow.split()[0] in names and arrow.split()[-1] in names for arrow in lines if "|" in arrow)
