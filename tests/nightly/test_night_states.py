"""Every state of a case in every report: strictness, flaky cases, and the limits of
sizes.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import HistoryEngine, case_named, release_refs
from tests.nights.documents import FAILURES
from triage.bisect.result import Answer, Bisection, BisectKind, Transition
from triage.investigate.result import StepResult
from triage.model.case import Expectation
from triage.model.outcome import Exit
from triage.model.revision import Revision
from triage.nightly.issues import plan_issues
from triage.nightly.result import Action, Night
from triage.nightly.run import NightRun
from triage.report.issue import LONGEST as LONGEST_ISSUE
from triage.report.issue import issue_markdown
from triage.report.night import night_junit

DONE = StepResult("reduce", "done")
LEFT = StepResult("bisect", "left", reason="the budget is spent")
FIX = Bisection(
    "worse",
    BisectKind.FIX,
    Answer.CULPRIT,
    Revision("1.1.0"),
    Revision("1.2.0"),
)
# a budget ended before the release with the fix was known exactly
GONE = Bisection(
    "worse",
    BisectKind.REGRESSION,
    Answer.CULPRIT,
    fixed=Transition(
        Revision("1.1.0"),
        Revision("1.2.0"),
        FAILURES["F"],
        confirmed=False,
        suspects=(),
    ),
)
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
    earlier = SimpleNamespace(is_flaky=lambda name: name == flaky)
    run = NightRun(engine, cases, new, old, earlier=lambda: earlier)  # type: ignore[arg-type]
    run.compare()
    return run.night()


def results(junit: str) -> dict[str, str]:
    """The result of each test case of a JUnit report."""
    return {
        case.get("name", ""): next((child.tag for child in case), "passed")
        for case in ElementTree.fromstring(junit).iter("testcase")
    }


def test_flaky_cases_begin_nothing() -> None:
    record = night(flaky="unsteady")
    assert {case.case: case.change for case in record.cases} == {
        "worse": "regressed",
        "other": "changed",
        "same": "failing",
        "fine": "passing",
        "healed": "unexpected-pass",
        "unsteady": "flaky",
    }
    named = [name for cluster in record.clusters for name in cluster.cases]
    assert sorted(named) == ["other", "worse"]
    assert results(night_junit(record)) == {
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
    names = [f"case-{number}" for number in range(20_000)]
    text = issue_markdown(replace(record.clusters[0], cases=names), record)
    assert len(text.encode()) <= LONGEST_ISSUE
    assert "`case-0`" in text
    assert "more, which are left out" in text


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
    record = night(worse="PF")
    record = replace(record, clusters=[replace(record.clusters[0], **known)])
    [answer] = record.to_do
    assert (answer.action, answer.since) == to_do
    opened = plan_issues(record, [], 10).changes
    is_fixed = to_do[0] is Action.UPGRADE
    assert bool(opened) is not is_fixed, "nobody files what is fixed"
