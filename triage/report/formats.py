"""The formats of a result: each has text, JSON, Markdown and HTML, some also JUnit XML.
A new format is one module and one line in FORMATS.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar

from triage.model.fields import as_json
from triage.model.outcome import ProbeResult, Status
from triage.report.document import Document
from triage.report.printable import visible

if TYPE_CHECKING:
    from junitparser import TestCase

R = TypeVar("R")

# : Each function returns a text of a result and its document; it is imported when it is
# first used.
FORMATS: Mapping[str, str] = {
    "text": "triage.report.terminal:text",
    "json": "triage.report.formats:json_text",
    "markdown": "triage.report.markdown:markdown_text",
    "html": "triage.report.html:html_text",
}

_LONG = 1 << 18  # characters of JSON
VERBOSE = "verbose"
"""Instead of `text`: shows what the terminal otherwise folds away."""


def json_text(result: object, document: Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a result as JSON, indented unless it is long, with CI workflow commands in
    texts escaped.
    """
    data = as_json(result)
    text = json.dumps(data, allow_nan=False)
    if len(text) < _LONG:  # what is read by people; indenting takes ten times as long
        text = json.dumps(data, indent=2)
    return text.replace("##[", "##\\u005b")


def rendered(
    name: str, result: R, document: Callable[[R], Document], **more: Callable[[R], str]
) -> str:
    """Return a result in the named format, with a line end. more: formats that only
    this result has.
    """
    if name in more:
        text = more[name](result)
    else:
        text = resolve_name(FORMATS[name])(result, document(result))
    return visible(text).rstrip("\n") + "\n"


def write_report(
    name: str, result: R, document: Callable[[R], Document], **more: Callable[[R], str]
) -> None:
    """Write a result to stdout: text in the colours and the width of the terminal,
    others as `rendered` returns them.
    """
    if name in ("text", VERBOSE):
        from triage.report.terminal import write  # slow to import

        write(document(result), sys.stdout, details=name == VERBOSE)
    else:
        sys.stdout.write(rendered(name, result, document, **more))


def junit_result(
    result: ProbeResult, name: str, *, is_failure: bool, strict: bool, text: str = ""
) -> TestCase:
    """Return a result as a case of a JUnit report.

    is_failure: nobody expects the failure; strict: an unexpected pass is a failure;
    text: what is known of the failure.
    """
    failure = result.failure
    failed = None
    skipped = None
    if failure and is_failure:
        signature = f"signature: {failure.signature}\n{text}".rstrip()
        failed = (failure.headline, failure.failure_class, signature)
    elif result.status is Status.XPASS and strict:
        text = "it passes although its recipe expects a failure"
        failed = (text, "unexpected-pass", text)
    elif result.reason is not None:
        skipped = result.reason
    elif failure:
        skipped = f"expected: {failure.headline}"
    return junit_case(name, result.recipe, result.seconds, failed, skipped)


def junit_case(
    name: str,
    group: str,
    seconds: float = 0.0,
    failed: tuple[str, str, str] | None = None,
    skipped: str | None = None,
) -> TestCase:
    """Return a case of a JUnit report. failed: message, class and text of its failure;
    skipped: why it is skipped.
    """
    from junitparser import Failure, Skipped, TestCase  # slow to import

    test = TestCase(visible(name), classname=visible(group), time=seconds)
    if failed:
        message, failure_class, text = map(visible, failed)
        failure = Failure(message, failure_class)
        failure.text = text
        test.result = [failure]
    elif skipped is not None:
        test.result = [Skipped(visible(skipped))]
    return test


def junit_text(title: str, cases: list[TestCase]) -> str:
    """Return one JUnit suite, without the characters that XML cannot hold."""
    from junitparser import JUnitXml, TestSuite  # slow to import

    suite = TestSuite(visible(title))
    suite.add_testcases(cases)  # counts all of them once
    document = JUnitXml("triage")
    document.add_testsuite(suite)
    return bytes(document.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]
