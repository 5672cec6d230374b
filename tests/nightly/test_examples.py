"""One reduction for each new failure, in every report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.nightly.test_compare import night_of
from triage.nightly.result import FailureCluster, Night, StepResult
from triage.report.night import NightReport, write_reports
from triage.report.registry import rendered


@pytest.fixture
def night() -> Night:
    return night_of({"one": "PF", "two": "PF", "other": "PG", "broken": "PH", "fine": "PP", "known": "FF"}, old=0, new=1)


@pytest.fixture
def reduced(night: Night) -> Night:
    """The record of the night after an investigation that reduced one cluster and failed to reduce two."""
    record = night
    reasons = {"other": "it fails in <none> of 8 further compiles", "broken": "no space left"}

    def with_step(cluster: FailureCluster) -> FailureCluster:
        name = cluster.cases[0]
        if reason := reasons.get(name):
            return replace(cluster, representative=name, steps=[StepResult("reduce", "failed", reason=reason)])
        steps = [StepResult("reduce", "done")]
        known = {"reproducer": f"reproducers/{name}", "operations": 3, "size": "3 operations"}
        return replace(cluster, representative=name, steps=steps, **known)

    return replace(record, clusters=list(map(with_step, record.clusters)))


def test_every_report_leads_to_the_reproducers(reduced: Night, tmp_path: Path) -> None:
    paths = write_reports(reduced, tmp_path).night.reports
    page = Path(paths["markdown"]).read_text()
    link = "[reproducers/one](reproducers/one/README.md)"
    assert f"- reduced to 3 operations: {link}\n" in page
    assert f"- reduced to 3 operations (of one, which has the same failure): {link}\n" in page
    assert "- not reduced: it fails in \\<none\\> of 8 further compiles\n" in page
    assert "- not reduced: no space left\n" in page
    clusters = json.loads(Path(paths["json"]).read_text())["clusters"]
    assert [cluster["reproducer"] for cluster in clusters] == ["reproducers/one", None, None]
    failures = [one.text or "" for one in ElementTree.fromstring(Path(paths["junit"]).read_text()).iter("failure")]
    assert ["reproducers/one" in text for text in failures] == [True, True, False, False]
    text = rendered(NightReport(reduced), "text")
    assert text.count("reproducers/one") == 2
    assert "not reduced: no space left" in text
