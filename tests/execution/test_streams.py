from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from triage.execution.streams import Capture, Log


@given(st.lists(st.binary(max_size=50).map(lambda data: data.hex().encode()), max_size=30), st.integers(2, 200))
def test_a_stream_split_anywhere_gives_the_same_capture(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    piecewise, at_once = Capture(limit), Capture(limit)
    for piece in pieces:
        piecewise.write(piece)
    at_once.write(whole)
    assert piecewise.captured() == at_once.captured()
    captured = at_once.captured()
    assert len(captured.head) + captured.dropped + len(captured.tail) == len(whole)
    assert whole.decode().startswith(captured.head)
    assert whole.decode().endswith(captured.tail)
    assert len(captured.head) + len(captured.tail) <= limit or not captured.dropped


def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.write(b"first\n")
        for number in range(40):
            log.write(bytes([65 + number % 26]) * (1 << 19))
        log.write(b"\nlast")
    data = (tmp_path / "log").read_bytes()
    assert data.startswith(b"first\nAAAA")
    assert data.endswith(b"\nlast")
    assert "bytes left out" in data.decode()
    assert len(data) < 9 << 20


def test_a_short_log_is_kept_whole(tmp_path: Path) -> None:
    with Log(tmp_path / "short") as log:
        log.write(b"all of it")
    assert (tmp_path / "short").read_bytes() == b"all of it"
