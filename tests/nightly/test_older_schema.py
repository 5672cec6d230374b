"""Nights of schema 4 are read and converted; a damaged one is an error that says so."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from triage.model.errors import BadInput
from triage.nightly.result import parse_night
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

OLDER = ROOT / "tests" / "data" / "night-schema-4.json"
"""Written by the last version of that schema for a real night of IREE 3.3.0."""
FAILING = "llama-attention-aggressive-fusion[dtype=f16]"


def test_what_a_case_did_is_the_same() -> None:
    night = parse_night(OLDER.read_bytes(), "older")
    document = json.loads(OLDER.read_text())
    assert len(night.cases) == len(document["cases"]) == 3
    for case, older in zip(night.cases, document["cases"], strict=True):
        assert (case.case, case.status.value) == (older["case"], older["status"])
        assert case.seconds == older["metrics"]["compile_seconds"]
        assert case.numbers == older["metrics"]
        assert (case.toolchain.name, case.baseline.toolchain.name) == ("3.3.0", "3.2.0")
        assert case.baseline.case == case.case


def test_what_was_found_out_is_the_same() -> None:
    [cluster] = parse_night(OLDER.read_bytes(), "older").clusters
    [older] = json.loads(OLDER.read_text())["clusters"]
    assert cluster.id == older["id"]
    assert cluster.culprit
    assert [one.name for one in cluster.culprit.suspects] == ["3.3.0"]
    for remedy, known in zip(cluster.remedies, older["remedies"], strict=True):
        assert list(remedy.flags) == known.get("flags", [])
        assert [check.breaks for check in remedy.checks] == [
            check["breaks"] for check in known["checks"]
        ]
        passed = [check["with"] == "compiles" for check in known["checks"]]
        assert [check.with_.passed for check in remedy.checks] == passed


def test_stored_nights_are_converted_once(home: Path, triage: Triage) -> None:
    folder = home / "nights-4" / "7"
    (folder / "logs" / "3.3.0").mkdir(parents=True)
    (folder / "logs" / "3.3.0" / "a.log").write_text("error: printed")
    (folder / "nightly.json.z").write_bytes(zlib.compress(OLDER.read_bytes()))
    (home / "nights-4" / "issues.json").write_text('{"a": "o/r#1"}')
    said: list[str] = []
    store = NightStore(Home(home), said.append)
    number, night = store.night_named("latest")
    assert (number, len(night.cases), store.issues()) == (7, 3, {"a": "o/r#1"})
    assert store.log(7, "logs/3.3.0/a.log") == "error: printed"
    assert len(said) == 1
    assert "1 night " in said[0]
    before = (home / "nights-5" / "7" / "nightly.json.z").stat().st_mtime_ns
    shown = json.loads(triage("show", FAILING, "--format", "json").stdout)
    assert [run["status"] for run in shown["runs"]] == ["failed"]
    after = (home / "nights-5" / "7" / "nightly.json.z").stat().st_mtime_ns
    assert before == after


@pytest.mark.parametrize(
    "damage",
    [
        {"cases": [{}]},
        {"cases": 3},
        {"clusters": [[]]},
        {"cases": [{"case": "a", "recipe": "a", "baseline": []}]},
        {"toolchain": None},
        {"times": [{"bisection": 1}]},
    ],
)
def test_a_damaged_one_is_bad_input(damage: dict[str, Any]) -> None:
    document = json.loads(OLDER.read_text()) | damage
    with pytest.raises(BadInput, match=r"^older is not the JSON of a nightly: "):
        parse_night(json.dumps(document), "older")


def test_a_stored_night_with_a_remedy_is_read_again(tmp_path: Path) -> None:
    """What ranks a remedy may be infinite, which JSON cannot say."""
    night = parse_night(OLDER.read_bytes(), "older")
    [cluster] = night.clusters
    remedies = [replace(one, rank=(math.inf, 1.0)) for one in cluster.remedies]
    store = NightStore(Home(tmp_path))
    store.add(replace(night, clusters=[replace(cluster, remedies=remedies)]))
    _, stored = store.night_named("latest")
    assert len(stored.clusters[0].remedies) == 2
