"""JUnit XML, for test viewers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triage.report.printable import visible


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


def junit_text(
    title: str, cases: Iterable[SuiteCase], properties: Mapping[str, str] | None = None
) -> str:
    """Return one JUnit suite, without the characters that XML cannot hold."""
    # slow to import
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    suite = TestSuite(visible(title))
    for name, value in (properties or {}).items():
        suite.add_property(visible(name), visible(value))
    tests = []
    for case in cases:
        test = TestCase(
            visible(case.name), classname=visible(case.group), time=case.seconds
        )
        if case.failed:
            message, failure_class, text = map(visible, case.failed)
            failure = Failure(message, failure_class)
            failure.text = text
            test.result = [failure]
        elif case.skipped is not None:
            test.result = [Skipped(visible(case.skipped))]
        if case.output is not None:
            test.system_out = visible(case.output)
        tests.append(test)
    suite.add_testcases(tests)  # counts all of them once
    document = JUnitXml("triage")
    document.add_testsuite(suite)
    return bytes(document.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]
