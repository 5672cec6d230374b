"""An interactive bisect: verdicts, contradictions, undo, the journal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.bisect.letters import HistoryEngine, case_named
from tests.execution.damage import DAMAGE, each_damage
from triage.bisect.line import BisectRequest
from triage.bisect.releases import release_line
from triage.bisect.result import Answer, Bisection
from triage.bisect.search import whole_search
from triage.cli.interactive_bisect import Session, read_journal
from triage.model.outcome import NoAnswer
from triage.toolchains.home import Home


@pytest.fixture
def session(tmp_path: Path) -> Session:
    engine = HistoryEngine("P" * 17 + "F" * 23)
    request = BisectRequest(engine, case_named("case"))  # type: ignore[arg-type]
    releases = release_line(request, engine.registry.releases(""))
    search = whole_search(releases).verified()
    assert not isinstance(search, NoAnswer)
    return Session(search, Home(tmp_path), Console(file=io.StringIO(), width=120))


def typed(session: Session, *lines: str) -> tuple[Bisection, str]:
    found = session.run(io.StringIO("".join(f"{line}\n" for line in lines)))
    assert isinstance(session.out.file, io.StringIO)
    return found, session.out.file.getvalue()


def test_undo_takes_a_wrong_verdict_back_and_enter_compiles_what_is_proposed(
    session: Session,
) -> None:
    found, said = typed(session, "bad", "undo", "undo", "why", *[""] * 20)
    assert found.after
    assert (found.status, found.after.name) == (Answer.CULPRIT, "1.17.0")
    assert found.confirmed
    assert "39 suspects" in said
    assert "removed: 1.19.0 bad" in said
    assert "the culprit is this one or older with" in said


def test_a_persons_verdict_counts_but_does_not_confirm(session: Session) -> None:
    engine = session.line.request.engine
    asked = len(engine.asked)  # type: ignore[attr-defined]
    found, _ = typed(session, *["bad"] * 20)
    assert (found.status, found.confirmed) == (Answer.SUSPECTS, False)
    assert [one.name for one in found.suspects] == ["1.1.0"]
    assert len(engine.asked) == asked  # type: ignore[attr-defined]


@each_damage
def test_a_damaged_journal_is_read_as_empty(session: Session, damage: str) -> None:
    typed(session, "skip", "skip", "skip", "quit")
    session.journal.write_bytes(DAMAGE[damage](session.journal.read_bytes()))
    lengths = (0, 3) if damage == "a flipped bit" else (0,)
    assert len(read_journal(session.journal)) in lengths
