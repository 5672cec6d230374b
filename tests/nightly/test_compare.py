"""A night: how cases are compared, what bisects add, and the reports of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tests.bisect.letters import HistoryEngine, case_named, outcome, release_refs
from tests.fake_releases import environment, fake_releases, write_case
from triage.cli.app import app
from triage.execution.engine import Engine
from triage.execution.task import Task
from triage.investigate.investigation import Investigation
from triage.investigate.origin import OriginFinder
from triage.investigate.result import CaseChangeKind
from triage.investigate.steps import InvestigationSetting
from triage.model.case import Case, Expectation
from triage.model.errors import BadInput
from triage.model.outcome import Measured, Probe
from triage.nightly.result import Night
from triage.nightly.run import NightRun, case_result, with_investigation
from triage.nightly.shards import shard
from triage.nightly.store import night_bytes, parse_night, read_night
from triage.report.formats import rendered
from triage.report.night import night_document

KNOWN = Expectation("class-F", since="1.1.0")
HISTORIES = {
    "comes-and-goes": "PPPPFFPP",
    "stays": "PPPFFFFF",
    "hidden": "PPUUFFFF",
    "fixed": "FFFFPPPP",
    "other": "FFFFGGPP",
    "fine": "PPPPPPPP",
    "never-tested": "UUUUUUUU",
}


def probe(case: Case, index: int, letter: str, cpu: float = 1.0) -> Probe:
    place = release_refs(index + 1)[index]
    return Probe(
        case,
        place.revision,
        place.revision.name,
        outcome(letter),
        Measured(cpu, cpu),
        cached=False,
    )


@pytest.mark.parametrize(
    ("expected", "old", "new", "change"),
    [
        (False, "P", "P", CaseChangeKind.PASSING),
        (False, "P", "F", CaseChangeKind.REGRESSED),
        (False, "F", "P", CaseChangeKind.FIXED),
        (False, "F", "F", CaseChangeKind.FAILING),
        (False, "F", "G", CaseChangeKind.CHANGED),
        (False, "U", "F", CaseChangeKind.NEW_UNTESTED),
        (False, "P", "U", CaseChangeKind.UNTESTABLE),
        (True, "P", "F", CaseChangeKind.KNOWN),
        (True, "P", "G", CaseChangeKind.REGRESSED),
        (True, "F", "F", CaseChangeKind.KNOWN),
        (True, "P", "P", CaseChangeKind.UNEXPECTED_PASS),
        (True, "F", "P", CaseChangeKind.FIXED),
    ],
)
def test_two_outcomes_are_one_kind_of_change(
    expected: bool, old: str, new: str, change: CaseChangeKind
) -> None:
    case = case_named("case", *([KNOWN] if expected else []))
    assert case_result(probe(case, 0, old), probe(case, 1, new)).change is change


@pytest.mark.parametrize("text", ["0/4", "5/4", "a/b", "1/²", f"1/{'9' * 5000}"])
def test_a_wrong_shard_says_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match="write I/N"):
        shard([], text)


def night_of(
    histories: dict[str, str], old: int, new: int, installed: set[int] | None = None
) -> Night:
    engine = HistoryEngine(histories)
    engine.registry.installed = installed
    engine.compiles = 7
    refs = release_refs(engine.registry.count)
    run = NightRun(
        engine, [case_named(name) for name in histories], refs[new], refs[old]
    )  # type: ignore[arg-type]
    run.compare()
    finder = OriginFinder(run.engine, run.refs)
    setting = InvestigationSetting(run.engine, run.cases_by_name, finder)
    investigation = Investigation(setting, "triage", steps=["bisect", "confirm"])
    night = run.night()
    investigation.add_clusters(
        night.clusters, {case.case: case for case in night.cases}
    )
    for _ in investigation.run():
        pass
    return replace(with_investigation(run.night(), investigation), investigation=None)


@pytest.fixture(scope="module")
def night() -> Night:
    return night_of(HISTORIES, old=1, new=4)


def written(night: Night) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(rendered("json", night, night_document))
    return document


def test_a_nightly_traces_each_regression_to_its_releases(night: Night) -> None:
    assert [case.case for case in night.regressed] == [
        "comes-and-goes",
        "stays",
        "hidden",
    ]
    origins = {
        case.case: [(b.kind, b.before.name, b.after.name) for b in case.bisections]
        for case in night.cases
    }
    assert origins["comes-and-goes"] == [
        ("regression", "1.3.0", "1.4.0"),
        ("fix", "1.5.0", "1.6.0"),
    ]
    assert origins["stays"] == [("regression", "1.2.0", "1.3.0")]
    [hidden] = next(case for case in night.cases if case.case == "hidden").bisections
    assert [suspect.name for suspect in hidden.suspects] == ["1.2.0", "1.3.0", "1.4.0"]


def test_a_night_is_read_as_it_was_written(night: Night) -> None:
    assert (
        parse_night(json.dumps(written(night)), "night")
        == parse_night(night_bytes(night), "night")
        == night
    )


@pytest.mark.parametrize(
    "text",
    [b"", b'{"schema": 7}', "\ud800".encode("utf-8", "surrogatepass"), b"[" * 100_000],
)
def test_a_file_that_is_not_a_night_is_bad_input(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "nightly.json").write_bytes(text)
    with pytest.raises(BadInput):
        read_night(tmp_path)


@pytest.mark.parametrize("kind", ["issue", "reproducer", "log"])
@pytest.mark.parametrize(
    "path",
    ["/proc/self/environ", "{folder}/link.md", "{folder}/link.log", "../secret.md"],
)
def test_a_path_that_leads_out_of_the_folder_is_bad_input(
    night: Night, tmp_path: Path, kind: str, path: str
) -> None:
    folder = {"issue": "issues", "reproducer": "reproducers", "log": "logs/1.0.0"}[kind]
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "out" / folder).mkdir(parents=True)
    for name in ("link.md", "link.log"):
        (tmp_path / "out" / folder / name).symlink_to(tmp_path / "secret.md")
    text = path.format(folder=folder)
    [first, *others] = night.clusters
    bad = (
        replace(night, clusters=[replace(first, **{kind: text}), *others])
        if kind != "log"
        else night
    )
    if kind == "log":
        bad = replace(night, cases=[replace(night.cases[0], log=text)])
    (tmp_path / "out" / "nightly.json").write_bytes(night_bytes(bad))
    with pytest.raises(BadInput, match=kind):
        read_night(tmp_path / "out")


def test_an_internal_error_in_one_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Engine.make

    def raising(engine: Engine, task: Task, *values: Any) -> object:
        if task.case.name == "broken":
            raise ZeroDivisionError
        return make(engine, task, *values)

    monkeypatch.setattr(Engine, "make", raising)
    for name in ("steady", "broken"):
        write_case(tmp_path / "cases", name)
    with fake_releases(tmp_path / "releases", count=2) as releases:
        for name, value in environment(releases, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        words = [
            "nightly",
            str(tmp_path / "cases"),
            "-t",
            "1.1.0",
            "-b",
            "1.0.0",
            "--out",
            str(tmp_path / "out"),
        ]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 4
    assert "ZeroDivisionError" in result.stderr
    ElementTree.parse(tmp_path / "out" / "nightly.xml")
    answer = json.loads((tmp_path / "out" / "nightly.json").read_text())
    assert (answer["unchanged"], answer["untestable"], answer["partial"]) == (
        1,
        1,
        False,
    )
    [untested] = [case for case in answer["cases"] if case["change"] == "untestable"]
    assert (untested["case"], "ZeroDivisionError" in untested["reason"]) == (
        "broken",
        True,
    )
    assert "broken" in result.stdout
