"""One reduction for each new failure, in every report. The reducer is a fake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import HistoryRunner
from tests.nightly.test_compare import night_of
from tests.reduce.made import reproducer
from triage.model.errors import EnvironmentFailure
from triage.nightly import night as night_module
from triage.nightly.compare import Night
from triage.nightly.night import NightRun
from triage.reduce.state import NotReproducible, Reduced
from triage.reduce.workflow import ReductionRequest
from triage.report.formats import TextFormat
from triage.report.night import NightReport, write_reports
from triage.report.night_building import record_of
from triage.toolchains.registry import ToolchainRef


@pytest.fixture
def night() -> Night:
    return night_of({"one": "PF", "two": "PF", "other": "PG", "broken": "PH", "fine": "PP", "known": "FF"}, old=0, new=1)


def reduced(order: ReductionRequest) -> Reduced | NotReproducible:
    match order.case.name:
        case "other":
            return NotReproducible(order.case, "it fails in <none> of 8 further compiles")
        case "broken":
            raise EnvironmentFailure("no space left")
        case _:
            return replace(reproducer().reduced, case=order.case)


@pytest.fixture
def richer(night: Night, monkeypatch: pytest.MonkeyPatch) -> list[Night]:
    orders: list[tuple[str, str, str | None]] = []

    def reduce_case(_: object, order: ReductionRequest) -> Reduced | NotReproducible:
        orders.append((order.case.name, order.bad.revision.name, order.good.revision.name if order.good else None))
        return reduced(order)

    monkeypatch.setattr(night_module, "reduce_case", reduce_case)
    monkeypatch.setattr(night_module, "reproducer_of", lambda _, found, __: replace(reproducer(), reduced=found))
    toolchain, baseline = (ToolchainRef("iree", revision) for revision in (night.toolchain, night.baseline))
    runner = HistoryRunner({"": ""})
    run = NightRun(runner, [pair.probe.case for pair in night.pairs], toolchain, baseline, _pairs=night.pairs)  # type: ignore[arg-type]
    found = list(run.reduce(lambda made: Path("out/reproducers") / made.slug))
    assert orders == [(name, "1.1.0", "1.0.0") for name in ("one", "other", "broken")]
    return found


def test_each_new_signature_is_reduced_once_and_told_at_once(richer: list[Night]) -> None:
    assert [len(one.examples) for one in richer] == [1, 2, 3]
    last = richer[-1]
    clusters = record_of(last).clusters_by_case()
    assert {name: cluster.representative for name, cluster in clusters.items()} == {
        "one": "one",
        "two": "one",
        "other": "other",
        "broken": "broken",
    }


def test_every_report_leads_to_the_reproducers(richer: list[Night], tmp_path: Path) -> None:
    paths = write_reports(record_of(richer[-1]), tmp_path).night.reports
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
    text = TextFormat().render(NightReport(record_of(richer[-1])))
    assert text.count("out/reproducers/one") == 2
    assert "not reduced: no space left" in text


def test_a_night_without_reductions_says_nothing_of_them(night: Night, tmp_path: Path) -> None:
    paths = write_reports(record_of(night), tmp_path).night.reports
    assert "reduced" not in Path(paths["markdown"]).read_text()
    assert {one["example"] for one in json.loads(Path(paths["json"]).read_text())["regressed"]} == {None}
