"""All bundled recipes on all releases. This takes minutes and runs with `make test-all`
only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import ROOT, Asked
from tests.real.statuses import VERSIONS, read_statuses

pytestmark = [pytest.mark.real, pytest.mark.slow]
LETTERS = {
    "segfault": "C",
    "assertion": "C",
    "llvm-error": "C",
    "out-of-memory": "M",
    "timeout": "T",
}


def letters(case: dict[str, Any]) -> dict[str, str]:
    def letter(version: str) -> str:
        if case["statuses"][version] != "failed":
            return str(case["statuses"][version][0].upper())
        [failure] = [
            one["failure"]
            for one in case["results"]
            if one["toolchain"]["name"] == version
        ]
        return LETTERS.get(failure["class"], "F")

    return {version: letter(version) for version in case["statuses"]}


def test_every_release_has_its_measured_status_and_half_the_compiles_find_all_changes(
    asked: Asked,
) -> None:
    words = ("history", ROOT / "recipes", "--until", VERSIONS[-1])
    half = {case["case"]: case for case in asked(*words)["cases"]}
    measured = read_statuses()
    assert half.keys() == measured.keys()
    for name, case in half.items():
        every = dict(zip(VERSIONS, measured[name], strict=True))
        seen = letters(case)
        assert seen == {version: every[version] for version in seen}
        passing = [letter == "P" for letter in measured[name]]
        assert len(case["changes"]) >= sum(a != b for a, b in pairwise(passing))
    compiles = sum(case["compiles"] for case in half.values())
    assert compiles <= len(half) * len(VERSIONS) / 2
