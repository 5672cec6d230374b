"""JUnit XML, for test viewers."""

from __future__ import annotations

from dataclasses import replace

from junitparser import Failure as JUnitFailure
from junitparser import JUnitXml, Skipped, TestCase, TestSuite

from triage.report.printable import visible
from triage.report.registry import SuiteCase, SuiteReport


def junit(report: SuiteReport) -> str:
    """One JUnit suite with a test case for each case of the report."""
    title, cases = report.suite()
    suite = TestSuite(visible(title))
    for name, value in report.properties().items():
        suite.add_property(visible(name), visible(value))
    for case in map(_printable, cases):
        test = TestCase(case.name, classname=case.group, time=case.seconds)
        if case.failed:
            message, failure_class, text = case.failed
            failure = JUnitFailure(message, failure_class)
            failure.text = text
            test.result = [failure]
        elif case.skipped is not None:
            test.result = [Skipped(case.skipped)]
        if case.output is not None:
            test.system_out = case.output
        suite.add_testcase(test)
    document = JUnitXml("triage")
    document.add_testsuite(suite)
    xml = bytes(document.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]
    return xml.rstrip("\n") + "\n"


def _printable(case: SuiteCase) -> SuiteCase:
    """Replace the characters that XML cannot hold."""
    return replace(
        case,
        name=visible(case.name),
        group=visible(case.group),
        failed=case.failed and (visible(case.failed[0]), visible(case.failed[1]), visible(case.failed[2])),
        skipped=case.skipped and visible(case.skipped),
        output=case.output and visible(case.output),
    )
