from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.execution.process import Capture


@given(st.lists(st.binary(max_size=50).map(lambda data: data.hex().encode()), max_size=30), st.integers(2, 200))
def test_any_cut_of_a_stream_gives_the_same_capture(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    piecewise, at_once = Capture(limit), Capture(limit)
    for piece in pieces:
        piecewise.feed(piece)
    at_once.feed(whole)
    assert piecewise.captured() == at_once.captured()
    kept = at_once.captured()
    assert len(kept.head) + kept.dropped + len(kept.tail) == len(whole)
    assert whole.decode().startswith(kept.head)
    assert whole.decode().endswith(kept.tail)
    assert len(kept.head) + len(kept.tail) <= limit or not kept.dropped
