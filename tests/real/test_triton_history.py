"""All bundled kernels on all releases of Triton that compile ahead of time. This takes gigabytes and minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage

pytestmark = [pytest.mark.real, pytest.mark.slow]
RECIPES = sorted((ROOT / "recipes").glob("triton-*.yaml"))
VERSIONS = [
    *("2.1.0", "2.2.0", "2.3.0", "2.3.1", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.3.1"),
    *("3.4.0", "3.5.0", "3.5.1", "3.6.0", "3.7.0", "3.7.1", "3.8.0", "3.9.0"),
]


def letters(case: dict[str, Any]) -> str:
    def letter(version: str) -> str:
        status: str = case["statuses"][version]
        return "C" if status == "failed" and case["failures"][version]["class"] == "assertion" else status[0].upper()

    return "".join(letter(version) for version in VERSIONS)


def test_every_release_has_its_measured_status(shared_home: Path, triage: Triage) -> None:
    bounds = ("--since", VERSIONS[0], "--until", VERSIONS[-1], "--every", "--format", "json")
    done = triage("history", *RECIPES, *bounds, timeout=3000)
    assert done.returncode == 0, done.stderr
    cases = {case["case"]: case for case in json.loads(done.stdout)["cases"]}
    lines = (Path(__file__).parent / "triton_statuses.txt").read_text().splitlines()
    assert {name: letters(case) for name, case in cases.items()} == dict(line.split() for line in lines)
    # Only the night that `make triage` replays differs from what the recipes expect.
    words = [word for version in VERSIONS for word in ("-t", version)]
    results = json.loads(triage("run", *RECIPES, *words, "--format", "json", timeout=3000).stdout)["results"]
    assert not [result for result in results if result["status"] == "xpass"]
    first: dict[str, str] = {}
    for result in results:
        if result["status"] == "failed":
            first.setdefault(result["case"], result["toolchain"]["name"])
    assert set(first.values()) == {"3.2.0"}


def test_changes_are_found_with_a_part_of_the_compiles(shared_home: Path, triage: Triage) -> None:
    done = triage("history", ROOT / "recipes/triton-delta-rule.yaml", "--since", "2.1.0", "--format", "json", timeout=3000)
    case = json.loads(done.stdout)["cases"][1]
    changes = [(change["before"]["name"], change["after"]["name"], change["to"]) for change in case["changes"]]
    assert changes == [("3.1.0", "3.2.0", "failed"), ("3.3.1", "3.4.0", "passed")]
    assert case["compiles"] < len(VERSIONS)
