from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import HistoryRunner, case_named, outcome, release_refs
from triage.model.case import Case, Expectation
from triage.model.errors import BadInput
from triage.model.outcome import Measured, Probe
from triage.nightly.compare import CaseChangeKind, Night, Pair, compare, pair_up
from triage.nightly.night import NightRun
from triage.nightly.shards import shard
from triage.report.night import NightReport, write_reports
from triage.report.night_building import record_of
from triage.report.registry import rendered
from triage.report.shapes import as_json

KNOWN = Expectation("class-F", since="1.1.0")


def probe(case: Case, index: int, letter: str, cpu: float = 1.0) -> Probe:
    place = release_refs(index + 1)[index]
    return Probe(case, place.revision, place.revision.name, outcome(letter), Measured(cpu, cpu), cached=False)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("P", "P", CaseChangeKind.PASSING),
        ("P", "F", CaseChangeKind.REGRESSED),
        ("F", "P", CaseChangeKind.FIXED),
        ("F", "F", CaseChangeKind.FAILING),
        ("F", "G", CaseChangeKind.CHANGED),
        ("U", "F", CaseChangeKind.UNTESTABLE),
        ("P", "U", CaseChangeKind.UNTESTABLE),
    ],
)
def test_a_pair_of_outcomes_is_one_kind_of_change(old: str, new: str, change: CaseChangeKind) -> None:
    case = case_named("case")
    assert compare(probe(case, 0, old), probe(case, 1, new)) is change


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("P", "F", CaseChangeKind.KNOWN),
        ("P", "G", CaseChangeKind.REGRESSED),
        ("F", "F", CaseChangeKind.KNOWN),
        ("P", "P", CaseChangeKind.UNEXPECTED_PASS),
        ("F", "P", CaseChangeKind.FIXED),
    ],
)
def test_only_an_expected_failure_is_known(old: str, new: str, change: CaseChangeKind) -> None:
    case = case_named("case", KNOWN)
    assert compare(probe(case, 0, old), probe(case, 1, new)) is change


def test_every_case_is_in_exactly_one_shard() -> None:
    cases = [case_named(f"case-{number}") for number in range(11)]
    parts = [shard(cases, f"{number}/4") for number in range(1, 5)]
    assert sorted(case.name for part in parts for case in part) == sorted(case.name for case in cases)
    assert shard(cases, None) == tuple(cases)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/2"])
def test_a_wrong_shard_says_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match="write I/N"):
        shard([], text)


def night_of(histories: dict[str, str], old: int, new: int) -> Night:
    runner = HistoryRunner(histories)
    runner.compiles = 7
    refs = release_refs(runner.registry.count)
    run = NightRun(runner, [case_named(name) for name in histories], refs[new], refs[old])
    run.compare()
    run.bisect(run.finder())
    return run.night()


@pytest.fixture
def night() -> Night:
    return night_of(
        {
            "comes-and-goes": "PPPPFFPP",
            "stays": "PPPFFFFF",
            "hidden": "PPUUFFFF",
            "fixed": "FFFFPPPP",
            "other": "FFFFGGPP",
            "fine": "PPPPPPPP",
            "never-tested": "UUUUUUUU",
        },
        old=1,
        new=4,
    )


def test_a_nightly_traces_each_regression_to_its_releases(night: Night) -> None:
    assert [pair.name for pair in night.of(CaseChangeKind.REGRESSED)] == ["comes-and-goes", "stays", "hidden"]
    origins = {pair.name: [(b.kind.value, b.before.name, b.after.name) for b in pair.bisections] for pair in night.pairs}
    assert origins["comes-and-goes"] == [("regression", "1.3.0", "1.4.0"), ("fix", "1.5.0", "1.6.0")]
    assert origins["stays"] == [("regression", "1.2.0", "1.3.0")]
    [hidden] = next(pair for pair in night.pairs if pair.name == "hidden").bisections
    assert [revision.name for revision, _ in hidden.suspects] == ["1.2.0", "1.3.0", "1.4.0"]


def test_the_json_of_a_nightly(night: Night) -> None:
    answer = as_json(NightReport(replace(record_of(night), reports={"markdown": "x.md"})).shape())
    assert [pair["case"] for pair in answer["regressed"]] == ["comes-and-goes", "stays", "hidden"]
    assert [pair["case"] for pair in answer["fixed"]] == ["fixed"]
    assert [pair["case"] for pair in answer["changed"]] == ["other"]
    assert (answer["unchanged"], answer["untestable"]) == (1, 1)
    assert answer["not_tested"] == [{"case": "never-tested", "reason": "unknown flag"}]
    cluster = answer["clusters"][0]
    assert (cluster["signature"], cluster["cases"]) == ("class-F:same text", ["comes-and-goes", "stays", "hidden"])
    regressed = answer["regressed"][0]
    assert regressed["bisections"][0]["after"]["name"] == "1.4.0"
    assert regressed["failure"]["class"] == "class-F"
    assert (regressed["baseline"]["status"], regressed["example"]) == ("passed", None)
    assert answer["reports"] == {"markdown": "x.md"}


def test_junit_counts_regressions_as_failures(night: Night) -> None:
    suite = ElementTree.fromstring(rendered(NightReport(record_of(night)), "junit")).find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "7",
        "failures": "4",
        "skipped": "1",
    }
    failures = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    assert "1.3.0 and 1.4.0" in failures["comes-and-goes"].text
    assert failures["fine"] is None


def test_markdown_names_regressions_and_their_releases(night: Night) -> None:
    text = NightReport(record_of(night)).markdown()
    assert "# 1.4.0 against 1.1.0" in text
    assert "**3** regressed, **1** fixed, **1** changed" in text
    assert "| `comes-and-goes` | class-F | 1.3.0 and 1.4.0 | 1.5.0 and 1.6.0 |" in text
    assert "one of 1.2.0, 1.3.0, 1.4.0" in text
    assert "| `never-tested` | 1.4.0: unknown flag |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def test_reports_are_written_without_temporary_files(night: Night, tmp_path: Path) -> None:
    files = write_reports(record_of(night), tmp_path / "deep" / "out").night.reports
    assert {Path(path).name for path in files.values()} == {"nightly.md", "nightly.xml", "nightly.json"}
    assert json.loads(Path(files["json"]).read_text())["reports"] == files
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == [
        "nightly.json",
        "nightly.md",
        "nightly.xml",
    ]


def test_unexpected_passes_are_named(night: Night) -> None:
    known = replace(night.pairs[0].probe.case, name="known", expect=(Expectation("class-F"),))
    probe = replace(night.of(CaseChangeKind.FIXED)[0].probe, case=known)
    report = NightReport(record_of(replace(night, pairs=(Pair(probe, probe, CaseChangeKind.UNEXPECTED_PASS),))))
    assert as_json(report.shape())["unexpected_passes"] == ["known"]
    assert "## Unexpected passes\n\n- `known`" in report.markdown()


def test_toolchain_and_baseline_must_differ() -> None:
    with pytest.raises(BadInput, match=r"both 1\.0\.0"):
        night_of({"case": "PP"}, 0, 0)


def test_only_a_much_slower_compile_is_measured_again() -> None:
    case = case_named("case")
    assert Pair(probe(case, 0, "P", 2.0), probe(case, 1, "P", 9.0), CaseChangeKind.PASSING).is_suspicious
    assert not Pair(probe(case, 0, "P", 2.0), probe(case, 1, "P", 2.5), CaseChangeKind.PASSING).is_suspicious
    assert not Pair(probe(case, 0, "P", 0.1), probe(case, 1, "P", 0.5), CaseChangeKind.PASSING).is_suspicious
    assert not Pair(probe(case, 0, "P", 2.0), probe(case, 1, "F", 9.0), CaseChangeKind.REGRESSED).is_suspicious


def test_pairs_come_in_the_order_of_the_recipes() -> None:
    cases = [case_named(name) for name in "ba"]
    probes = [probe(case, index, "P") for index in (1, 0) for case in reversed(cases)]
    assert [pair.name for pair in pair_up(probes, "1.1.0", "1.0.0", ["b", "a"])] == ["b", "a"]
