"""A failing log is never called green, and a green one never failing, where no rule
knows the form of its messages.
"""

from __future__ import annotations

import pytest

from benchmarks.first_look import classified
from tests.classify.samples import read_table
from triage.classify import LogStatus

LOGS = read_table("logs")


def steps(count: int) -> str:
    return "".join(f"step {number} of the pipeline\n" for number in range(count))


@pytest.mark.parametrize("count", [0, 30, 1000])
@pytest.mark.parametrize("place", ["failing anywhere", "failing at the end"])
def test_a_failing_log_is_never_called_green(place: str, count: int) -> None:
    for line in LOGS[place]:
        below = steps(count) if place == "failing anywhere" else ""
        log = classified(f"{steps(count)}{line}\n{below}")
        assert log.status is not LogStatus.NO_FAILURES, line
        if below and not log.failures:
            assert log.likeliest[0].line == count + 1
            assert len(log.likeliest) <= 3


@pytest.mark.parametrize("text", LOGS["green"])
def test_words_of_failures_in_a_green_log_raise_no_alarm(text: str) -> None:
    for padding in ("", steps(20)):
        assert classified(f"{padding}{text}\n").status is LogStatus.NO_FAILURES


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("x.cc: the frobnicator could not turn", LogStatus.NO_FAILURES),
        ("x.cc: could not turn the frobnicator", LogStatus.UNRECOGNISED),
    ],
)
def test_the_last_lines_of_a_large_log_are_read(line: str, status: LogStatus) -> None:
    assert classified(f"{steps(40_000)}{line}\nstopping now\n").status is status


def test_a_quotation_and_the_prefixes_of_other_programs_do_not_matter() -> None:
    text = LOGS["prefixed"]
    for prefix in LOGS["prefixes"]:
        lines = "".join(prefix + line for line in text.splitlines(keepends=True))
        [failure], [plain] = classified(lines).failures, classified(text).failures
        assert failure.signature == plain.signature, prefix


def test_the_title_of_an_issue_may_hold_its_only_message() -> None:
    body = "The steps are those of the page:\n" + steps(5)
    title = "Every second run of it crashes\n"
    assert classified(f"{title}\n{body}").status is LogStatus.UNRECOGNISED
    assert classified(f"{title}{body}").status is LogStatus.NO_FAILURES
