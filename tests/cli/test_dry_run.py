"""`--dry-run` of commands that search: what would be compiled, what is known; nothing is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import GOOD, recipe
from tests.conftest import Triage
from triage.bisect.result import CONFIDENCE
from triage.bisect.search import confirmations

pytestmark = pytest.mark.real


def answer(triage: Triage, *words: object) -> dict[str, Any]:
    done = triage(*words, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    shape: dict[str, Any] = json.loads(done.stdout)
    return shape


def compiled(triage: Triage, path: Path) -> list[str | None]:
    """What is known of two releases."""
    probes = answer(triage, "nightly", path, "-t", "3.13.0", "-b", "3.12.0")["probes"]
    assert [probe["toolchain"] for probe in probes] == ["3.13.0", "3.12.0"]
    return [probe["known"] for probe in probes]


def test_what_is_known_and_what_would_be_compiled(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    path = recipe(tmp_path, "good", GOOD)
    assert compiled(triage, path) == [None, None]
    ends = answer(triage, "bisect", path, "--good", "3.11.0", "--bad", "3.13.0")
    assert ([probe["toolchain"] for probe in ends["probes"]], ends["known"]) == (["3.11.0", "3.12.0", "3.13.0"], 0)
    again = 2 * confirmations(CONFIDENCE)  # of the pair
    assert ends["most"] == 3 + again
    everywhere = answer(triage, "history", path)
    assert everywhere["most"] == len(everywhere["probes"]) >= 16
    reduction = answer(triage, "reduce", path, "-t", "3.13.0", "--good", "3.12.0")
    assert (reduction["most"], bool(reduction["remark"])) == (2, True)
    assert compiled(triage, path) == [None, None]
    assert triage("run", path, "-t", "3.13.0").returncode == 0
    assert compiled(triage, path) == ["passed", None]
    ends = answer(triage, "bisect", path, "--good", "3.11.0", "--bad", "3.13.0")
    assert (ends["known"], ends["most"]) == (1, 2 + again)
