"""One reduction for each new failure, in every report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.nightly.test_compare import night_of
from triage.nightly.compare import Night
from triage.report.night import NightReport, write_reports
from triage.report.night_building import record_of
from triage.report.night_record import ClusterRecord, NightRecord, StepRecord
from triage.report.registry import rendered


@pytest.fixture
def night() -> Night:
    return night_of({"one": "PF", "two": "PF", "other": "PG", "broken": "PH", "fine": "PP", "known": "FF"}, old=0, new=1)


@pytest.fixture
def reduced(night: Night) -> NightRecord:
    """The record of the night after an investigation that reduced one cluster and failed to reduce two."""
    record = record_of(night)
    reasons = {"other": "it fails in <none> of 8 further compiles", "broken": "no space left"}

    def with_step(cluster: ClusterRecord) -> ClusterRecord:
        name = cluster.cases[0]
        if reason := reasons.get(name):
            return replace(cluster, representative=name, steps=[StepRecord("reduce", "failed", reason=reason)])
        steps = [StepRecord("reduce", "done")]
        known = {"reproducer": f"out/reproducers/{name}", "operations": 3, "size": "3 operations"}
        return replace(cluster, representative=name, steps=steps, **known)

    return replace(record, clusters=list(map(with_step, record.clusters)))


def test_every_report_leads_to_the_reproducers(reduced: NightRecord, tmp_path: Path) -> None:
    paths = write_reports(reduced, tmp_path).night.reports
    page = Path(paths["markdown"]).read_text()
    link = "[reproducers/one](reproducers/one/README.md)"
    assert f"- reduced to 3 operations: {link}\n" in page
    assert f"- reduced to 3 operations (of one, which has the same failure): {link}\n" in page
    assert "- not reduced: it fails in \\<none\\> of 8 further compiles\n" in page
    assert "- not reduced: no space left\n" in page
    told = {one["case"]: one["example"] for one in json.loads(Path(paths["json"]).read_text())["regressed"]}
    assert told["one"] == told["two"] == {"case": "one", "reproducer": "out/reproducers/one", "operations": 3, "reason": None}
    assert (told["other"]["reproducer"], told["other"]["reason"]) == (None, "it fails in <none> of 8 further compiles")
    failures = [one.text or "" for one in ElementTree.fromstring(Path(paths["junit"]).read_text()).iter("failure")]
    assert ["out/reproducers/one" in text for text in failures] == [True, True, False, False]
    text = rendered(NightReport(reduced), "text")
    assert text.count("out/reproducers/one") == 2
    assert "not reduced: no space left" in text


def test_a_night_without_reductions_says_nothing_of_them(night: Night, tmp_path: Path) -> None:
    paths = write_reports(record_of(night), tmp_path).night.reports
    assert "reduced" not in Path(paths["markdown"]).read_text()
    assert {one["example"] for one in json.loads(Path(paths["json"]).read_text())["regressed"]} == {None}
