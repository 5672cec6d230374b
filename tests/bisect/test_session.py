"""An interactive bisect: verdicts, contradictions, undo, the journal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from tests.bisect.letters import HistoryEngine, case_named
from tests.execution.damage import DAMAGE, each_damage
from triage.bisect.changes import passing_search
from triage.bisect.plan import plan
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.cli.interactive_bisect import HELP, Session, read_journal
from triage.model.outcome import NoAnswer
from triage.toolchains.home import Home

LETTERS = "P" * 17 + "F" * 23


def session_on(
    letters: str = LETTERS,
    home: Path | None = None,
    kind: BisectKind = BisectKind.REGRESSION,
) -> Session:
    engine = HistoryEngine({"case": letters})
    if home:
        engine.registry.home = Home(home)
    planned = plan(
        BisectRequest(engine, case_named("case"), kind=kind),
        "1.0.0",
        f"1.{len(letters) - 1}.0",
    )
    assert not isinstance(planned, Bisection)
    search = passing_search(planned).verified()
    assert not isinstance(search, NoAnswer)
    return Session(search, engine.registry.home, Console(file=io.StringIO(), width=120))


def typed(session: Session, *lines: str, resume: bool = False) -> tuple[Bisection, str]:
    text = io.StringIO("".join(f"{line}\n" for line in lines))
    return session.run(text, resume=resume), session.out.file.getvalue()


def test_enter_compiles_what_is_proposed_until_the_culprit_is_confirmed() -> None:
    found, said = typed(session_on(), *[""] * 20)
    assert (found.status, found.after.name, found.confirmed) == (
        Answer.CULPRIT,
        "1.17.0",
        True,
    )
    assert "39 suspects, about 6 steps" in said
    assert "bits" not in said


def test_a_persons_verdict_counts_but_does_not_confirm() -> None:
    session = session_on()
    asked = len(session.line.request.engine.asked)
    found, _ = typed(session, *["bad"] * 20)
    assert (found.status, found.confirmed) == (Answer.SUSPECTS, False)
    assert [one.name for one in found.suspects] == ["1.1.0"]
    assert len(session.line.request.engine.asked) == asked


def test_undo_takes_a_wrong_verdict_back() -> None:
    found, said = typed(session_on(), "bad", "undo", "undo", "why", *[""] * 20)
    assert found.after.name == "1.17.0"
    assert "removed: 1.19.0 bad" in said
    assert "the culprit is this one or older with" in said


def test_what_stays_the_same_is_shown_once_and_help_fits_a_narrow_terminal() -> None:
    _, said = typed(session_on(), "why", "undo", "what?", "quit")
    assert said.count("39 suspects") == 1
    assert "there is no verdict to remove" in said
    assert max(map(len, HELP.splitlines())) <= 60


@each_damage
def test_a_damaged_journal_is_read_as_empty(tmp_path: Path, damage: str) -> None:
    session = session_on(home=tmp_path)
    typed(session, "skip", "skip", "skip", "quit")
    session.journal.write_bytes(DAMAGE[damage](session.journal.read_bytes()))
    assert len(read_journal(session.journal)) in (
        (0, 3) if damage == "a flipped bit" else (0,)
    )
