"""No pattern takes more than linear time, and a log of many different errors is
counted.
"""

from __future__ import annotations

import io
import re
import time

import pytest

from triage.classify import Rule, classify_log, packaged_rules
from triage.classify.log_line import MOST_CHARACTERS


@pytest.mark.parametrize("rule", packaged_rules().rules, ids=lambda rule: rule.name)
def test_no_rule_is_slow_on_a_line_that_repeats_its_words(rule: Rule) -> None:
    for pattern in rule.patterns:
        words = sorted(set(re.findall(r"[A-Za-z][A-Za-z :']{3,}", pattern.regex)))
        for text in (" ".join(words), *words):
            line = (text * MOST_CHARACTERS)[:MOST_CHARACTERS]
            started = time.process_time()
            re.compile(pattern.regex).search(f"error: {line}")
            assert time.process_time() - started < 0.5, pattern.regex


@pytest.mark.parametrize(
    "line",
    [
        "x.cc:12: Assertion `a",
        "could not turn if " + "if " * 1200,
        "cannot open " + "a." * 2000,
        'cannot open "' + 'ab " ' * 800,
        "cannot open x" + "   y" * 900,
        "cannot open " + "error " * 600,
    ],
    ids=["assertion", "if", "dots", "quotes", "blanks", "words"],
)
def test_a_second_look_takes_linear_time(line: str) -> None:
    def seconds(count: int) -> float:
        log = "".join(f"{line} {number}\n" for number in range(count)).encode()
        started = time.process_time()
        classify_log(io.BytesIO(log), packaged_rules())
        return time.process_time() - started

    seconds(1)
    # measured: at most 5 ms for one of these lines
    assert seconds(300) < 300 * 0.05


def test_messages_beyond_the_limit_are_counted_and_hide_no_better_cause() -> None:
    def letters(number: int) -> str:
        return "".join(chr(97 + number // 26**place % 26) for place in range(4))

    lines = [
        f"m.mlir:{number}:1: error: '{letters(number)}.op' op is odd in {letters(number)}"
        for number in range(9000)
    ]
    cause = "m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes"
    log = "\n".join([*lines, cause, lines[0]]).encode()
    failures = classify_log(io.BytesIO(log), packaged_rules()).failures
    assert failures[0].failure_class == "shared-memory-overflow"
    assert sum(failure.count for failure in failures) == 9002
    assert len(failures) < 600


@pytest.mark.parametrize(
    "lines",
    [
        '    %12 = "stablehlo.add"(%3, %4) : (tensor<4x8xf32>, tensor<4x8xf32>)\n'
        "  util.func private @main$async_dispatch_3(%arg0: !hal.fence) {\n",
        "[12/9000] Building CXX object compiler/obj.dir/File.cpp.o\n"
        "/usr/bin/clang++ -Werror=date-time -Werror -Wall -c /w/File.cpp -o x.o\n"
        "/w/File.cpp:12:7: warning: unused variable 'error' [-Wunused-variable]\n",
    ],
    ids=["printed IR", "a build"],
)
def test_lines_that_say_nothing_take_little_time(lines: str) -> None:
    log = (lines * (10_000_000 // len(lines))).encode()
    started = time.process_time()
    assert classify_log(io.BytesIO(log), packaged_rules()).failures == ()
    assert (time.process_time() - started) / len(log) * 1e6 < 0.2  # seconds a MB
