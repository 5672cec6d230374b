"""The JSON of a night: written, read again, and read as earlier versions wrote it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.nightly.test_compare import night_of, probe
from triage.model.case import InputKind, Reference, RunSpec
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import Failed, Probe
from triage.nightly.compare import Night, Pair, compare
from triage.report.night import NightReport
from triage.report.night_building import record_of
from triage.report.night_record import SCHEMA, NightRecord, cluster_id
from triage.report.night_record import night_of as read
from triage.report.registry import rendered

FIRST = Path(__file__).parent / "documents" / "schema-1.json"
HISTORIES = {
    "comes-and-goes": "PPPPFFPP",
    "stays": "PPPFFFFF",
    "fixed": "FFFFPPPP",
    "other": "FFFFGGPP",
    "as-before": "FFFFFFFF",
    "fine": "PPPPPPPP",
    "never-tested": "UUUUUUUU",
}


@pytest.fixture
def night() -> NightRecord:
    return record_of(night_of(HISTORIES, old=1, new=4))


def written(night: NightRecord) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(rendered(NightReport(night), "json"))
    return document


def test_a_night_is_read_as_it_was_written(night: NightRecord) -> None:
    assert read(written(night)) == night


def test_every_case_is_listed_with_its_change(night: NightRecord) -> None:
    document = written(night)
    assert document["schema"] == SCHEMA
    assert {case["case"]: case["change"] for case in document["cases"]} == {
        "comes-and-goes": "regressed",
        "stays": "regressed",
        "fixed": "fixed",
        "other": "changed",
        "as-before": "failing",
        "fine": "passing",
        "never-tested": "untestable",
    }
    stays = next(case for case in document["cases"] if case["case"] == "stays")
    assert (stays["status"], stays["baseline_status"], stays["stage"]) == ("failed", "passed", "compile")
    assert stays["cluster"] == cluster_id("class-F:same text") == document["clusters"][0]["id"]
    assert stays["bisections"][0]["after"]["name"] == "1.3.0"
    assert document["suites"][stays["suite"]] == {"passed": 2, "failed": 4, "untestable": 1}


def failing_in(stage: Stage) -> Probe:
    spec = RunSpec(reference=Reference())
    case = case_named("case")
    case = replace(case, run=spec, input=replace(case.input, kind=InputKind.ONNX))
    made = probe(case, 1, "F")
    assert isinstance(made.outcome, Failed)
    return replace(made, outcome=replace(made.outcome, failure=replace(made.outcome.failure, stage=stage)))


def test_each_stage_counts_the_cases_that_reached_it(night: NightRecord) -> None:
    pairs = []
    for stage in (Stage.IMPORT, Stage.COMPILE, Stage.COMPARE):
        new = failing_in(stage)
        pairs.append(Pair(probe(new.case, 0, "P"), new, compare(probe(new.case, 0, "P"), new)))
    good = probe(pairs[0].probe.case, 1, "P")
    pairs.append(Pair(good, good, compare(good, good)))
    record = record_of(Night(night.toolchain, night.baseline, tuple(pairs), 1.0, 4, 0))
    assert record.stage_counts() == {
        "import": {"passed": 3, "failed": 1},
        "compile": {"passed": 2, "failed": 1},
        "run": {"passed": 2, "failed": 0},
        "compare": {"passed": 1, "failed": 1},
    }
    assert [case.stage for case in record.cases] == ["import", "compile", "compare", "compare"]


def test_a_document_of_schema_1_is_read() -> None:
    night = read(json.loads(FIRST.read_text()))
    assert (night.toolchain.name, night.baseline.name, night.started) == ("1.4.0", "1.1.0", None)
    assert {case.case: case.change for case in night.cases} == {
        "comes-and-goes": "regressed",
        "stays": "regressed",
        "fixed": "fixed",
        "other": "changed",
        "never-tested": "untestable",
    }
    assert night.unlisted == 1
    [fixed] = night.of("fixed")
    assert (fixed.status, fixed.failure, fixed.baseline.status) == ("passed", None, "failed")
    assert fixed.either_failure is not None
    cluster = night.clusters[0]
    assert (cluster.representative, cluster.reproducer) == ("comes-and-goes", "out/reproducers/comes-and-goes")
    first, second = json.loads(FIRST.read_text()), written(night)
    for key in ("unchanged", "untestable", "not_tested", "unexpected_passes", "compiles", "cached"):
        assert second[key] == first[key]
    assert [case["example"] for case in second["regressed"]] == [case["example"] for case in first["regressed"]]


@pytest.mark.parametrize("document", [{}, {"schema": 2}, {"schema": SCHEMA + 1}, {"schema": "2"}, {"results": []}])
def test_what_is_no_night_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"out/nightly\.json"):
        read(document, "out/nightly.json")
