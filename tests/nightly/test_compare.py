"""A night: how cases are compared, what bisects add, and the reports of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import HistoryEngine, case_named, outcome, release_refs
from triage.investigate.result import CaseChangeKind
from triage.model.case import Case, Expectation
from triage.model.errors import BadInput
from triage.model.outcome import Measured, Probe
from triage.nightly.compare import case_result
from triage.nightly.result import Night, night_bytes, parse_night
from triage.nightly.run import NightRun
from triage.nightly.shards import shard
from triage.nightly.store import read_night
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


def night_of(histories: dict[str, str], old: int, new: int) -> Night:
    """Return a night between two of the releases that the letters of each case are
    for, with a bisect of each new failure.
    """
    engine: Any = HistoryEngine(histories)
    engine.compiles = 7
    refs = release_refs(engine.registry.count)
    cases = list(map(case_named, histories))
    run = NightRun(engine, cases, refs[new], refs[old], bisects=True)
    run.compare()
    run.investigate()
    return replace(run.night(), investigation=None)


@pytest.fixture(scope="module")
def night() -> Night:
    return night_of(HISTORIES, old=1, new=4)


def test_a_nightly_traces_each_regression_to_its_releases(night: Night) -> None:
    origins = {
        case.case: [(b.kind, b.before.name, b.after.name) for b in case.bisections]
        for case in night.regressed
    }
    assert list(origins) == ["comes-and-goes", "stays", "hidden"]
    assert origins["comes-and-goes"] == [("regression", "1.3.0", "1.4.0")]
    fixed = night.regressed[0].bisections[0].fixed_in
    assert fixed is not None
    assert fixed.name == "1.6.0"
    assert origins["stays"] == [("regression", "1.2.0", "1.3.0")]
    [hidden] = night.regressed[2].bisections
    assert [suspect.name for suspect in hidden.suspects] == ["1.2.0", "1.3.0", "1.4.0"]


def test_a_night_is_read_as_it_was_written(night: Night) -> None:
    for text in (rendered("json", night, night_document), night_bytes(night)):
        assert parse_night(text, "night") == night


@pytest.mark.parametrize(
    "text",
    [b"", b'{"schema": 7}', "\ud800".encode("utf-8", "surrogatepass"), b"[" * 100_000],
)
def test_a_file_that_is_not_a_night_is_bad_input(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "nightly.json").write_bytes(text)
    with pytest.raises(BadInput):
        read_night(tmp_path)


@pytest.mark.parametrize("path", ["/etc/passwd", "{}/link.md", "../secret.md"])
@pytest.mark.parametrize("kind", ["issue", "reproducer", "log"])
def test_a_path_that_leads_out_of_the_folder_is_bad_input(
    night: Night, tmp_path: Path, kind: str, path: str
) -> None:
    folder = {"issue": "issues", "reproducer": "reproducers", "log": "logs/1.0.0"}[kind]
    link = tmp_path / "out" / folder / ("link.log" if kind == "log" else "link.md")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "secret.md")
    named = {kind: path.format(folder).replace("link.md", link.name)}
    part = "cases" if kind == "log" else "clusters"
    bad = replace(night, **{part: [replace(getattr(night, part)[0], **named)]})
    (tmp_path / "out" / "nightly.json").write_bytes(night_bytes(bad))
    with pytest.raises(BadInput, match=kind):
        read_night(tmp_path / "out")
