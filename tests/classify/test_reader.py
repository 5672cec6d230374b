"""The scanner finds the same failures however a stream is cut, wrapped or compressed,
in bounded memory and time.
"""

from __future__ import annotations

import gzip
import io
import itertools
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.classify.samples import (
    ABOVE,
    COLUMNS,
    DUMP,
    IR,
    LEGALIZE,
    NINJA_LOG,
    PYTEST_LOG,
    QUIET_LOG,
    SHARED_3_3,
    VERIFIER,
    read_table,
    scan_output,
    stamped,
)  # fmt: skip
from triage.classify import classify_log, packaged_rules
from triage.classify.log import HEAD
from triage.model.errors import BadInput

# Below the IR, the message stands above the line that reveals the failure.
EVERYTHING = f"{PYTEST_LOG}{NINJA_LOG}{QUIET_LOG}{COLUMNS}{VERIFIER}{DUMP.format('APass', 'iree-hal-a')}{IR * 200}{ABOVE}".encode()
EXPECTED = scan_output(EVERYTHING)
LOGS = read_table("logs")


def letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


@settings(max_examples=40)
@example([*range(len(EVERYTHING))])
@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=8))
def test_any_cut_gives_the_same_failures(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(EVERYTHING)]
    pieces = [EVERYTHING[start:end] for start, end in itertools.pairwise(ends)]
    assert scan_output(*pieces) == EXPECTED
    signatures = {failure.signature for failure in EXPECTED}
    assert "assertion:Cost.cpp unhandled address space" in signatures


@pytest.mark.parametrize("log", [PYTEST_LOG, NINJA_LOG, QUIET_LOG])
def test_timestamps_columns_and_colours_do_not_matter(log: str) -> None:
    def wrapped(begin: str, end: str = "\n") -> bytes:
        return "".join(f"{begin}{line}{end}" for line in log.splitlines()).encode()

    plain = scan_output(log.encode())
    assert bool(plain) is (log != QUIET_LOG)
    assert scan_output(stamped(log)) == plain
    column = wrapped("build job\tRun it\t2025-06-04T12:34:56.1234567Z ")
    assert scan_output(column) == plain
    colours = scan_output(wrapped("\x1b[31m", "\x1b[0m\r\n"))
    assert [one.signature for one in colours] == [one.signature for one in plain]


def test_an_unfinished_script_of_a_ci_step_hides_nothing() -> None:
    log = "##[group]Run it\n" + "x\n" * 400 + LEGALIZE
    [failure] = scan_output(log.encode())
    assert failure.failure_class == "legalization"


def test_long_lines_need_little_memory() -> None:
    constant = '"arith.constant"() <{value = dense<0x3F80>}> ' * 200_000
    line = f"m.mlir:6:8: note: see current operation: {constant}\n"
    stream = io.BytesIO(((SHARED_3_3 + line) * 4 + LEGALIZE).encode())
    tracemalloc.start()
    first, second = classify_log(stream, packaged_rules()).failures
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first.failure_class, first.count) == ("shared-memory-overflow", 4)
    assert (second.failure_class, second.line) == ("legalization", 9)
    assert peak < 12 << 20


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b" \n\n",
        bytes(range(256)) * 1000,
        gzip.compress(NINJA_LOG.encode()),
        NINJA_LOG.encode("utf-16"),
    ],
)
def test_a_log_without_text_is_bad_input(log: bytes) -> None:
    with pytest.raises(BadInput, match="no text"):
        classify_log(io.BytesIO(log), packaged_rules())


def test_messages_beyond_the_limit_are_counted_and_hide_no_better_cause() -> None:
    line = "m.mlir:{0}:1: error: '{1}.op' op is odd in {1}\n"
    lines = [line.format(number, letters(number)) for number in range(9000)]
    log = "".join([*lines, SHARED_3_3, lines[0]]).encode()
    failures = classify_log(io.BytesIO(log), packaged_rules()).failures
    assert failures[0].failure_class == "shared-memory-overflow"
    assert sum(failure.count for failure in failures) == 9002
    assert len(failures) < 600


@pytest.mark.parametrize(
    "line",
    [
        *LOGS["costly lines"],
        *(word * (HEAD // len(word)) for word in LOGS["costly words"]),
    ],
    ids=lambda line: line[:20],
)
def test_no_log_takes_more_than_linear_time(line: str) -> None:
    """Measured: at most a second of a processor. A pattern or a list that takes
    quadratic time needs minutes.
    """
    starts = [""] if line in LOGS["costly lines"] else LOGS["starts"]
    lines = (
        start + line.format(number, letters(number))
        for number in range(100_000 // len(line))
        for start in starts
    )
    log = io.BytesIO("\n".join(lines).encode())
    started = time.process_time()
    classify_log(log, packaged_rules())
    assert time.process_time() - started < 10
