"""Every state of a case in every report: strictness, flaky cases, and the limits of
sizes.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import HistoryEngine, case_named, release_refs
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.results import RunResults
from triage.investigate.result import CaseChangeKind, StepResult
from triage.model.case import Expectation
from triage.model.exit_codes import Exit
from triage.model.outcome import Failure, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.nightly.issues import plan_issues
from triage.nightly.result import Night
from triage.nightly.run import NightRun
from triage.nightly.verdict import Action
from triage.report.formats import rendered
from triage.report.issue import LONGEST as LONGEST_ISSUE
from triage.report.issue import issue_markdown
from triage.report.night import night_document, night_junit
from triage.report.runs import run_junit

HISTORIES = {
    "worse": "PF",
    "other": "FG",
    "same": "FF",
    "fine": "PP",
    "healed": "PP",
    "unsteady": "PF",
}


def night(flaky: str = "", **histories: str) -> Night:
    """flaky: a case that changes without the compiler."""
    engine = HistoryEngine(histories or HISTORIES)
    old, new = release_refs(2)
    cases = [
        case_named(name, *([Expectation("class-F")] if name == "healed" else []))
        for name in engine.histories
    ]
    earlier = SimpleNamespace(
        is_flaky=lambda name: name == flaky, is_known=lambda *_: False
    )
    run = NightRun(engine, cases, new, old, earlier=lambda: earlier)  # type: ignore[arg-type]
    run.compare()
    return run.night()


def changes(record: Night) -> dict[str, str]:
    return {case.case: case.change for case in record.cases}


def results(record: Night) -> dict[str, str]:
    """The result of each test case of the JUnit report."""
    suite = ElementTree.fromstring(night_junit(record)).find("testsuite")
    assert suite is not None
    return {
        case.get("name", ""): next(
            (child.tag for child in case if child.tag != "system-out"), "passed"
        )
        for case in suite.iter("testcase")
    }


def test_flaky_cases_begin_nothing() -> None:
    record = night(flaky="unsteady")
    assert changes(record) == {
        "worse": "regressed",
        "other": "changed",
        "same": "failing",
        "fine": "passing",
        "healed": "unexpected-pass",
        "unsteady": "flaky",
    }
    assert {case.case for case in record.cases if case.is_new_failure} == {
        "worse",
        "other",
    }
    assert {name for cluster in record.clusters for name in cluster.cases} == {
        "worse",
        "other",
    }
    assert [case.case for case in record.regressed] == ["worse"]
    assert results(record) == {
        "worse": "failure",
        "other": "failure",
        "same": "skipped",
        "fine": "passed",
        "healed": "passed",
        "unsteady": "skipped",
    }


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
    record = replace(night(**histories), strict=strict)
    assert record.exit is code


def test_an_issue_stays_within_the_limit() -> None:
    record = night(worse="PF")
    cluster = replace(
        record.clusters[0], cases=[f"case-{number}" for number in range(20_000)]
    )
    text = issue_markdown(cluster, record)
    assert len(text.encode()) <= LONGEST_ISSUE
    assert "`case-0`" in text
    assert "more, which are left out" in text


def test_an_investigated_failure_is_to_be_filed_and_a_known_issue_waited_for() -> None:
    record = night(worse="PF")
    step = StepResult("reduce", "done")
    left = StepResult("bisect", "left", reason="the budget is spent")
    (cluster,) = record.clusters
    done = replace(record, clusters=[replace(cluster, steps=[step])])
    assert [to_do.action for to_do in done.to_do] == [Action.FILE]
    fix = Bisection(
        case="worse",
        kind=BisectKind.FIX,
        status=Answer.CULPRIT,
        before=Revision("1.1.0"),
        after=Revision("1.2.0"),
    )
    fixed = replace(record, clusters=[replace(cluster, steps=[step], fix=fix)])
    assert [(to_do.action, to_do.since) for to_do in fixed.to_do] == [
        (Action.UPGRADE, "1.2.0")
    ]
    assert "upgrade: it is fixed in 1.2.0" in rendered("text", fixed, night_document)
    assert plan_issues(fixed, [], 10).changes == ()
    stopped = replace(record, clusters=[replace(cluster, steps=[left])])
    assert [to_do.reason for to_do in stopped.to_do] == ["the budget is spent"]
    known = replace(record.cases[0], change=CaseChangeKind.KNOWN, issue="o/r#1")
    waiting = replace(record, cases=[known, known], clusters=[])
    assert [to_do.action for to_do in waiting.to_do] == [Action.WAIT]


def test_a_known_failure_of_a_run_is_not_a_failed_test() -> None:
    failure = Failure("a", "a", "a:x", "it failed")
    found = [
        ProbeResult(
            case=status.value,
            recipe="r",
            toolchain=Revision("3.2.0"),
            status=status,
            failure=failure,
        )
        for status in (Status.FAILED, Status.XFAIL)
    ]
    suite = ElementTree.fromstring(run_junit(RunResults(found, {}))).find("testsuite")
    assert suite is not None
    children = [[child.tag for child in case] for case in suite.iter("testcase")]
    assert children == [["failure"], ["skipped"]]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
