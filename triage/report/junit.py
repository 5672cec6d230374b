"""A nightly as JUnit XML, for test viewers."""

from __future__ import annotations

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from triage.model.outcome import Failed
from triage.nightly.compare import CaseChangeKind, Example, Night, Pair
from triage.report.words import example_text, origin_story, untestable_reason


def junit(night: Night) -> str:
    """One suite; a regression is a failure, an expected failure and an untestable case are skipped."""
    suite = TestSuite(f"triage {night.toolchain.name} against {night.baseline.name}")
    for pair in night.pairs:
        case = TestCase(pair.name, classname=pair.probe.case.recipe, time=pair.probe.measured.seconds)
        result = _result(pair, night.example_of(pair))
        if result is not None:
            case.result = [result]
        suite.add_testcase(case)
    whole = JUnitXml("triage")
    whole.add_testsuite(suite)
    return bytes(whole.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]


def _result(pair: Pair, example: Example | None) -> Failure | Skipped | None:
    outcome = pair.probe.outcome
    match pair.change:
        case CaseChangeKind.REGRESSED | CaseChangeKind.CHANGED:
            assert isinstance(outcome, Failed)
            result = Failure(outcome.failure.headline, outcome.failure.failure_class)
            small = [example_text(example, pair.name)] if example else []
            result.text = "\n".join([outcome.failure.signature, *(origin_story(found) for found in pair.bisections), *small])
            return result
        case CaseChangeKind.UNTESTABLE:
            return Skipped(untestable_reason(pair))
        case CaseChangeKind.KNOWN | CaseChangeKind.UNCHANGED if isinstance(outcome, Failed):
            return Skipped(f"fails as before: {outcome.failure.failure_class}: {outcome.failure.headline}")
    return None
