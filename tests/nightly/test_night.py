"""A night: how cases are compared, what bisects add, what is to do, and its reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import (
    HistoryEngine,
    case_named,
    failure,
    outcome,
    release_refs,
)
from triage.bisect.result import Answer, Bisection, BisectKind, Transition
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseChangeKind, StepResult
from triage.model.case import Case, Expectation
from triage.model.errors import BadInput
from triage.model.outcome import Exit, Measured, Probe
from triage.model.revision import Revision
from triage.nightly.compare import case_result, shard
from triage.nightly.issues import plan_issues
from triage.nightly.result import Action, Night, TimeChange, night_bytes, parse_night
from triage.nightly.run import NightRun
from triage.nightly.store import read_night
from triage.report.formats import rendered
from triage.report.issue import LONGEST as LONGEST_ISSUE
from triage.report.issue import issue_markdown
from triage.report.night import night_document, night_junit

KNOWN = Expectation("class-F", since="1.1.0")
HISTORIES = {
    "worse": "PF",
    "other": "FG",
    "same": "FF",
    "fine": "PP",
    "healed": "PP",
    "unsteady": "PF",
    "never-tested": "UU",
}


def night_of(
    histories: dict[str, str], old: int = 0, new: int = 1, *, bisects: bool = True
) -> Night:
    """Return a night between two of the releases that the letters of each case are for,
    with a bisect of each new failure. `healed` is expected to fail, and `unsteady` is
    known to be flaky.
    """
    engine: Any = HistoryEngine(histories)
    engine.compiles = 7
    refs = release_refs(engine.registry.count)
    cases = [
        case_named(name, *([KNOWN] if name == "healed" else [])) for name in histories
    ]
    earlier: Any = SimpleNamespace(is_flaky=lambda name: name == "unsteady")
    run = NightRun(
        engine, cases, refs[new], refs[old], bisects=bisects, earlier=lambda: earlier
    )
    run.compare()
    if bisects:
        run.investigate()
    return replace(run.night(), investigation=None)


@pytest.fixture(scope="module")
def night() -> Night:
    return night_of(HISTORIES)


def probe(case: Case, index: int, letter: str) -> Probe:
    place = release_refs(index + 1)[index]
    version, times = place.revision.name, Measured(1.0, 1.0)
    return Probe(case, place.revision, version, outcome(letter), times, cached=False)


@pytest.mark.parametrize(
    ("expected", "letters", "change"),
    [
        (False, "PP", CaseChangeKind.PASSING),
        (False, "PF", CaseChangeKind.REGRESSED),
        (False, "FP", CaseChangeKind.FIXED),
        (False, "FF", CaseChangeKind.FAILING),
        (False, "FG", CaseChangeKind.CHANGED),
        (False, "UF", CaseChangeKind.NEW_UNTESTED),
        (False, "PU", CaseChangeKind.UNTESTABLE),
        (True, "PF", CaseChangeKind.KNOWN),
        (True, "PG", CaseChangeKind.REGRESSED),
        (True, "FF", CaseChangeKind.KNOWN),
        (True, "PP", CaseChangeKind.UNEXPECTED_PASS),
        (True, "FP", CaseChangeKind.FIXED),
    ],
)
def test_two_outcomes_are_one_kind_of_change(
    expected: bool, letters: str, change: CaseChangeKind
) -> None:
    case = case_named("case", *([KNOWN] if expected else []))
    old, new = (probe(case, index, letter) for index, letter in enumerate(letters))
    assert case_result(old, new).change is change


@pytest.mark.parametrize("text", ["0/4", "5/4", "a/b", "1/²", f"1/{'9' * 5000}"])
def test_a_wrong_shard_says_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match="write I/N"):
        shard([], text)


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
@pytest.mark.parametrize(
    ("kind", "folder"),
    [("issue", "issues"), ("reproducer", "reproducers"), ("log", "logs/1.0.0")],
)
def test_a_path_that_leads_out_of_the_folder_is_bad_input(
    night: Night, tmp_path: Path, kind: str, folder: str, path: str
) -> None:
    link = tmp_path / "out" / folder / ("link.log" if kind == "log" else "link.md")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "secret.md")
    named = {kind: path.format(folder).replace("link.md", link.name)}
    part = "cases" if kind == "log" else "clusters"
    bad = replace(night, **{part: [replace(getattr(night, part)[0], **named)]})
    (tmp_path / "out" / "nightly.json").write_bytes(night_bytes(bad))
    with pytest.raises(BadInput, match=kind):
        read_night(tmp_path / "out")


def junit_results(night: Night) -> dict[str, str]:
    """The result of each test case of the JUnit report."""
    return {
        case.get("name", ""): next((child.tag for child in case), "passed")
        for case in ElementTree.fromstring(night_junit(night)).iter("testcase")
    }


def test_each_state_is_told_and_flaky_cases_begin_nothing(night: Night) -> None:
    changes = {case.case: case.change.value for case in night.cases}
    assert changes == {
        "worse": "regressed",
        "other": "changed",
        "same": "failing",
        "fine": "passing",
        "healed": "unexpected-pass",
        "unsteady": "flaky",
        "never-tested": "untestable",
    }
    named = [name for cluster in night.clusters for name in cluster.cases]
    assert sorted(named) == ["other", "worse"]
    expected = dict.fromkeys(HISTORIES, "skipped")
    expected |= dict.fromkeys(named, "failure")
    expected |= dict.fromkeys(("fine", "healed"), "passed")
    assert junit_results(night) == expected


def test_junit_fails_what_is_slower_or_healed_only_where_asked(night: Night) -> None:
    times = {"baseline_seconds": 0.002, "seconds": 0.004, "verdict": Pace.SLOWER}
    rows = [TimeChange(case="fine", function="decode", **times)]
    rows.append(TimeChange(case="other", reason="1.2.0: there is no device hip"))
    for strict, count in ((False, 2), (True, 4)):
        told = junit_results(replace(night, times=rows, strict=strict)).values()
        assert list(told).count("failure") == count


@pytest.mark.parametrize(
    ("histories", "strict", "code"),
    [
        ({"worse": "PF"}, False, Exit.FOUND),
        ({"same": "FF"}, False, Exit.OK),
        ({"healed": "PP"}, False, Exit.OK),
        ({"healed": "PP"}, True, Exit.FOUND),
    ],
)
def test_the_exit_code_of_a_night(
    histories: dict[str, str], strict: bool, code: Exit
) -> None:
    record = replace(night_of(histories, bisects=False), strict=strict)
    assert record.exit is code


def test_an_issue_stays_within_the_limit(night: Night) -> None:
    names = [f"case-{number}" for number in range(20_000)]
    text = issue_markdown(replace(night.clusters[0], cases=names), night)
    assert len(text.encode()) <= LONGEST_ISSUE
    assert "`case-0`" in text
    assert "more, which are left out" in text


DONE = StepResult("reduce", "done")
LEFT = StepResult("bisect", "left", reason="the budget is spent")
ENDS = (Revision("1.1.0"), Revision("1.2.0"))
FIX = Bisection("worse", BisectKind.FIX, Answer.CULPRIT, *ENDS)
# a budget ended before the release with the fix was known exactly
GONE = replace(
    FIX,
    kind=BisectKind.REGRESSION,
    fixed=Transition(*ENDS, failure("F"), confirmed=False, suspects=()),
)


@pytest.mark.parametrize(
    ("known", "to_do"),
    [
        ({"steps": [DONE]}, (Action.FILE, None)),
        ({"steps": [DONE], "culprit": FIX}, (Action.UPGRADE, "1.2.0")),
        ({"steps": [DONE], "culprit": GONE}, (Action.UPGRADE, "1.2.0")),
        ({"steps": [LEFT]}, (Action.INVESTIGATE, None)),
    ],
)
def test_there_is_one_thing_to_do_about_a_failure(
    known: dict[str, Any], to_do: tuple[Action, str | None]
) -> None:
    record = night_of({"worse": "PF"}, bisects=False)
    record = replace(record, clusters=[replace(record.clusters[0], **known)])
    [answer] = record.to_do
    assert (answer.action, answer.since) == to_do
    opened = plan_issues(record, [], 10).changes
    is_fixed = to_do[0] is Action.UPGRADE
    assert bool(opened) is not is_fixed, "nobody files what is fixed"
