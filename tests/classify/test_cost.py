"""No pattern takes more than linear time, and a log of many different errors is
counted.
"""

from __future__ import annotations

import io
import re
import time

import pytest

from triage.classify import Rule, classify_log, packaged_rules
from triage.classify.log import MOST_CHARACTERS


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
        "could not turn if " + "if " * 1200,
        "cannot open " + "error " * 600,
    ],
    ids=["if", "words"],
)
def test_a_second_look_takes_linear_time(line: str) -> None:
    def seconds(count: int) -> float:
        log = "".join(f"{line} {number}\n" for number in range(count)).encode()
        started = time.process_time()
        classify_log(io.BytesIO(log), packaged_rules())
        return time.process_time() - started

    seconds(1)
    # measured: at most 5 ms for one of these lines
    assert seconds(100) < 100 * 0.05


def letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


def test_messages_beyond_the_limit_are_counted_and_hide_no_better_cause() -> None:
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
    ("line", "most"),
    [
        # measured: 0.02 to 0.06 seconds a MB for the first three, 0.1 to 0.2 for others
        (
            '    %{0} = "stablehlo.add"(%3, %4) : (tensor<4x8xf32>, tensor<4x8xf32>)\n',
            0.25,
        ),
        ("/usr/bin/clang++ -Werror=date-time -Wall -c /w/File{0}.cpp -o x.o\n", 0.25),
        ("/w/File.cpp:{0}:7: warning: unused variable 'error' [-Wunused]\n", 0.25),
        ("m.mlir:{0}:1: error: failed to legalize operation 'arith.op{0}'\n", 0.5),
        ("/w/src/f{0}.cc:{0}: error: the frobnicator {0} turned purple\n", 0.5),
        ("RuntimeError: thing {1} broke in layer {1}\n", 0.5),
        ("m.mlir:{0}:1: error: '{1}.op' op is odd in {1}\n", 0.5),
        ('  %{0} = "my.error_op"(%3) {{loc = "failed to {1}"}} : f32\n', 0.3),
    ],
    ids=[
        "printed IR",
        "a command",
        "warnings",
        "known",
        "unknown",
        "exceptions",
        "other names",
        "near errors",
    ],
)
def test_a_large_log_takes_little_time(line: str, most: float) -> None:
    numbers = range(1_000_000 // len(line))
    lines = (line.format(number, letters(number)) for number in numbers)
    log = "".join(lines).encode()
    started = time.process_time()
    classify_log(io.BytesIO(log), packaged_rules())
    assert (time.process_time() - started) / len(log) * 1e6 < most
