from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.execution.streams import Capture


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
