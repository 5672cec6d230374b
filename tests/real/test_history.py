"""All bundled recipes on all releases: minutes, so it has a target of its own (`make test-slow`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from tests.real.statuses import VERSIONS, read_statuses

pytestmark = [pytest.mark.real, pytest.mark.slow]
LETTERS = {"segfault": "C", "assertion": "C", "llvm-error": "C", "out-of-memory": "M", "timeout": "T"}


def letters(case: dict[str, Any]) -> str:
    def letter(version: str) -> str:
        if case["statuses"][version] != "failed":
            return case["statuses"][version][0].upper()
        return LETTERS.get(case["failures"][version]["class"], "F")

    return "".join(letter(version) for version in VERSIONS)


def changes(case: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(one["before"]["name"], one["after"]["name"], one["from"], one["to"]) for one in case["changes"]]


def history(triage: Triage, *words: str) -> dict[str, dict[str, Any]]:
    done: subprocess.CompletedProcess[str] = triage(
        "history", ROOT / "recipes", "--until", VERSIONS[-1], *words, "--format", "json", timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return {case["case"]: case for case in json.loads(done.stdout)["cases"]}


def test_every_release_has_the_status_that_was_measured_and_half_the_compiles_find_the_changes(
    shared_home: Path, triage: Triage
) -> None:
    half = history(triage)
    every = history(triage, "--every")
    assert {name: letters(case) for name, case in every.items()} == read_statuses()
    assert {name: changes(case) for name, case in half.items()} == {name: changes(case) for name, case in every.items()}
    assert sum(case["compiles"] for case in half.values()) <= len(every) * len(VERSIONS) / 2


def test_what_recipes_expect_is_what_happens_but_for_the_replayed_night(shared_home: Path, triage: Triage) -> None:
    """A failure that no recipe expects first appears in 3.3.0; nothing passes that is expected to fail."""
    words = [word for version in VERSIONS for word in ("-t", version)]
    done = triage("run", ROOT / "recipes", *words, "--format", "json", timeout=3000)
    statuses: dict[str, dict[str, str]] = {}
    for one in json.loads(done.stdout)["results"]:
        statuses.setdefault(one["case"], {})[one["toolchain"]["name"]] = one["status"]
    for name, by_version in statuses.items():
        assert "xpass" not in by_version.values(), name
        unexpected = [version for version in VERSIONS if by_version[version] == "failed"]
        if unexpected:
            assert unexpected[0] == "3.3.0", name
            assert by_version["3.2.0"] in ("passed", "untestable"), name
