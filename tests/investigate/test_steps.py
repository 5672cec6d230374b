"""What a step of an investigation says where it has no answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.nights.documents import FAILURES
from triage.investigate import steps
from triage.model.outcome import NoAnswer
from triage.model.revision import Revision
from triage.remedy.result import Remedies

NEWER = Revision("3.9.0")


@pytest.mark.parametrize(
    ("tried", "left", "status", "words", "not_words"),
    [
        (0, 6, "left", ["nothing was tried", "time", "6", "3.9.0"], ["none of"]),
        (
            0,
            0,
            "failed",
            ["nothing was tried", "candidate", "3.9.0"],
            ["none of", "time"],
        ),
        (4, 2, "left", ["none of 4", "2", "3.9.0"], ["nothing"]),
        (4, 0, "failed", ["none of 4", "3.9.0"], ["nothing", "left"]),
    ],
)
def test_no_remedy_says_how_many_were_tried_and_why_not_more(
    monkeypatch: pytest.MonkeyPatch,
    tried: int,
    left: int,
    status: str,
    words: list[str],
    not_words: list[str],
) -> None:
    known = {"tried": tried, "left": left, "is_out_of_time": left > 0}
    found = replace(
        Remedies("case", Revision("3.3.0"), failure=FAILURES["F"], upgrade=NEWER),
        **known,
    )
    monkeypatch.setattr(steps, "find_remedies", lambda *_: found)
    nothing: Any = None
    answer = steps.working_remedies(nothing, nothing)
    assert isinstance(answer, NoAnswer)
    engine: Any = SimpleNamespace(stop=threading.Event())
    _, done = steps.do_step(engine, "remedy", 10.0, lambda: answer)
    assert done.status == status
    assert all(word in answer.reason for word in words)
    assert not any(word in answer.reason for word in not_words)
