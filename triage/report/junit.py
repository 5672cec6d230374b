"""JUnit XML, for test viewers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.model.outcome import Status
from triage.report.elements import failure_text
from triage.report.printable import visible

if TYPE_CHECKING:
    from triage.execution.results import RunResults


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One case of a test report."""

    name: str
    group: str
    seconds: float
    failed: tuple[str, str, str] | None = None
    """Message, class and text of a failure."""
    skipped: str | None = None
    """Why it is skipped."""
    output: str | None = None
    """Text of a case that did not fail."""


def junit_text(title: str, cases: Iterable[SuiteCase], properties: Mapping[str, str] | None = None) -> str:
    """Return one JUnit suite, without the characters that XML cannot hold."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite  # slow to import

    suite = TestSuite(visible(title))
    for name, value in (properties or {}).items():
        suite.add_property(visible(name), visible(value))
    for case in cases:
        test = TestCase(visible(case.name), classname=visible(case.group), time=case.seconds)
        if case.failed:
            message, failure_class, text = map(visible, case.failed)
            failure = Failure(message, failure_class)
            failure.text = text
            test.result = [failure]
        elif case.skipped is not None:
            test.result = [Skipped(visible(case.skipped))]
        if case.output is not None:
            test.system_out = visible(case.output)
        suite.add_testcase(test)
    document = JUnitXml("triage")
    document.add_testsuite(suite)
    return bytes(document.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]


def run_junit(result: RunResults) -> str:
    """Return a suite with a test case for each result."""
    cases = []
    for one in result.results:
        name, failure, skipped, failed = f"{one.case} on {one.toolchain.name}", one.failure, one.reason, None
        if failure and one.status is Status.FAILED:
            failed = (failure.headline, failure.failure_class, failure.signature)
        elif failure and skipped is None:
            skipped = f"expected failure: {failure_text(failure)}"
        cases.append(SuiteCase(name, one.recipe, one.seconds, failed=failed, skipped=skipped))
    return junit_text("triage run", cases)
