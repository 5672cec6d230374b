"""The scanner finds the same failures however a stream is cut, wrapped or compressed,
in bounded memory.
"""

import gzip
import io
import itertools
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.classify.samples import (
    COLUMNS,
    DUMP,
    LEGALIZE,
    NINJA_LOG,
    PYTEST_LOG,
    QUIET_LOG,
    SHARED_3_3,
    SHARED_3_4,
    VERIFIER,
    scan_output,
    stamped,
)  # fmt: skip
from triage.classify import classify_log, packaged_rules
from triage.classify.log import HEAD
from triage.model.errors import BadInput

EVERYTHING = (
    PYTEST_LOG
    + NINJA_LOG
    + QUIET_LOG
    + COLUMNS
    + VERIFIER
    + DUMP.format("APass", "iree-hal-a")
).encode()


def classes_in(data: bytes | str) -> list[str]:
    return [
        failure.failure_class
        for failure in scan_output(data.encode() if isinstance(data, str) else data)
    ]


EXPECTED = scan_output(EVERYTHING)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=8))
def test_any_cut_gives_the_same_failures(cuts: list[int]) -> None:
    offsets = [0, *sorted(cuts), len(EVERYTHING)]
    assert (
        scan_output(*(EVERYTHING[a:b] for a, b in itertools.pairwise(offsets)))
        == EXPECTED
    )


def test_timestamps_columns_and_colours_do_not_matter() -> None:
    assert scan_output(QUIET_LOG.encode()) == ()
    for log in (PYTEST_LOG, NINJA_LOG, QUIET_LOG):
        assert scan_output(stamped(log)) == scan_output(log.encode())
        tabbed = "".join(
            f"build job\tRun it\t2025-06-04T12:34:56.1234567Z {line}\n"
            for line in log.splitlines()
        )
        assert scan_output(tabbed.encode()) == scan_output(log.encode())
        ninja = "".join(f"\x1b[31m{line}\x1b[0m\r\n" for line in log.splitlines())
        assert [f.signature for f in scan_output(ninja.encode())] == [
            f.signature for f in scan_output(log.encode())
        ]


def test_a_root_cause_comes_first_wherever_it_stands() -> None:
    assert (
        scan_output((VERIFIER + SHARED_3_4 + LEGALIZE).encode())[0].failure_class
        == "shared-memory-overflow"
    )


def test_the_printed_script_of_a_ci_step_is_not_output() -> None:
    log = "##[group]Run ./it\n\x1b[36;1mgrep \"error: failed to legalize operation 'a.b'\"\x1b[0m\n##[endgroup]\nfine\n"
    assert scan_output(stamped(log)) == ()
    assert classes_in(log + LEGALIZE) == ["legalization"]
    # without its end
    assert classes_in("##[group]Run ./it\n" + "x\n" * 400 + LEGALIZE) == [
        "legalization"
    ]


def test_long_lines_need_little_memory() -> None:
    line = (
        b"m.mlir:6:8: note: see current operation: "
        + b'"arith.constant"() <{value = dense<0x3F80>}> ' * 200_000
        + b"\n"
    )
    stream = io.BytesIO((SHARED_3_3.encode() + line) * 4 + LEGALIZE.encode())
    tracemalloc.start()
    failures = classify_log(stream, packaged_rules()).failures
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [failure.failure_class for failure in failures] == [
        "shared-memory-overflow",
        "legalization",
    ]
    assert failures[0].count == 4
    assert failures[1].line == 9
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


@pytest.mark.parametrize(
    "word", ["1x", "a<", "(", "a", "/a", "'a.b' op ", "x: ", "[x] "]
)
def test_no_line_takes_long_to_match(word: str) -> None:
    started = time.process_time()
    for start in ("m.mlir:1:1: error: ", "error ", ""):
        scan_output(f"{start}{word * (HEAD // len(word))}\n".encode())
    assert time.process_time() - started < 1.5
