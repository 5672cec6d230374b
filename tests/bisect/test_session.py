"""An interactive bisect: verdicts, contradictions, undo, the journal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.bisect.letters import HistoryEngine, search_along
from tests.execution.damage import do, each_damage
from triage.bisect.result import Answer, Bisection
from triage.cli.interactive_bisect import Session, read_journal
from triage.model.outcome import NoAnswer
from triage.toolchains.home import Home


@pytest.fixture
def session(tmp_path: Path) -> Session:
    engine = HistoryEngine("P" * 17 + "F" * 23)
    search = search_along(engine, [1.0] * 40, [1.0] * 40).verified()
    assert not isinstance(search, NoAnswer)
    return Session(search, Home(tmp_path), Console(file=io.StringIO(), width=120))


def typed(session: Session, *lines: str) -> Bisection:
    return session.run(io.StringIO("".join(f"{line}\n" for line in lines)))


def test_undo_takes_a_wrong_verdict_back_and_enter_compiles_what_is_proposed(
    session: Session,
) -> None:
    answer = typed(session, "bad", "undo", "undo", "why", *[""] * 20)
    assert answer.after
    assert (answer.status, answer.after.name) == (Answer.CULPRIT, "c17")
    assert answer.confirmed
    assert isinstance(session.out.file, io.StringIO)
    printed = session.out.file.getvalue()
    for text in ("39 suspects", "removed: c19 bad", "this one or older with"):
        assert text in printed


def test_a_persons_verdict_counts_but_does_not_confirm(session: Session) -> None:
    answer = typed(session, *["bad"] * 20)
    assert (answer.status, answer.confirmed) == (Answer.SUSPECTS, False)
    assert [suspect.name for suspect in answer.suspects] == ["c1"]
    assert answer.probes == 2  # of the ends


@each_damage
def test_a_damaged_journal_is_read_as_empty(session: Session, damage: str) -> None:
    typed(session, "skip", "skip", "skip", "quit")
    do(damage, session.journal)
    lengths = (0, 3) if damage == "a flipped bit" else (0,)
    assert len(read_journal(session.journal)) in lengths
