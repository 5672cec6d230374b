"""A bisect led by a person: verdicts, taking back, jumping, resuming, and git's own log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.bisect.letters import case_named
from tests.bisect.test_commits import CommitRunner, EverySource, timeline  # noqa: F401 - the fixture
from tests.execution.damage import DAMAGE, each_damage
from triage.bisect.candidates import CommitCandidates, commit_candidates
from triage.bisect.result import Answer, BisectKind
from triage.bisect.search import BisectSearch
from triage.bisect.session import Journal, JournalEntry, Session, from_git_log, git_log
from triage.cli.interactive_bisect import lead
from triage.git_history import Timeline
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Verdict

LETTERS = "P" * 17 + "F" * 23


def session_on(timeline: Timeline, folder: Path, letters: str = LETTERS, missing: tuple[int, ...] = ()) -> Session:  # noqa: F811
    span = timeline.between(timeline.commits[0].sha, timeline.commits[39].sha)
    line = CommitCandidates(timeline, "iree", commit_candidates(timeline, span, [EverySource(missing)]), {})
    search = BisectSearch(CommitRunner(timeline, letters), case_named("case"), line)
    assert search.begin()
    return Session(search, Journal(folder, ["case"]))


def typed(session: Session, *lines: str):
    out = Console(file=io.StringIO(), width=120)
    given_lines = iter(lines)

    def read(_: str) -> str:
        try:
            return next(given_lines)
        except StopIteration as end:
            raise EOFError from end

    return lead(session, out, read), out.file.getvalue()


def test_enter_compiles_what_is_proposed_until_the_culprit_is_confirmed(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    found, said = typed(session_on(timeline, tmp_path), *[""] * 20)
    assert (found.answer, found.after.commit) == (Answer.CULPRIT, timeline.commits[17].sha)
    assert "suspects" in said
    assert "bits" in said
    assert found.confirmed


def test_a_persons_verdict_counts_but_does_not_confirm(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path)
    asked = len(session.search.runner.asked)
    names = [session.search.range.revision(index).name for index in (16, 17)]
    found, _ = typed(session, f"good {names[0]}", f"bad {names[1]}")
    assert found.answer is Answer.SUSPECTS
    assert [one.commit for one, _ in found.suspects] == [timeline.commits[17].sha]
    assert not found.confirmed
    assert len(session.search.runner.asked) == asked


def test_undo_removes_the_last_verdict(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path)
    before = session.search.belief.suspects()
    session.probe(20)
    session.record(5, Verdict.GOOD)
    assert session.undo().verdict is Verdict.GOOD
    assert session.undo().by == "probe"
    assert session.search.belief.suspects() == before
    assert session.undo() is None
    assert session.journal.read() == ()


def test_jump_proposes_another_candidate_once(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path, missing=(9,))
    session.jump(timeline.commits[30].sha[:8])
    assert session.next() == 30
    session.probe(30)
    assert session.next() != 30
    with pytest.raises(BadInput, match="the artifact has expired"):
        session.jump(timeline.commits[9].sha)
    with pytest.raises(BadInput, match="deadbeef"):
        session.jump("deadbeef")


def test_quitting_keeps_everything_and_resume_repeats_no_probe(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    first = session_on(timeline, tmp_path)
    with pytest.raises(Interrupted):
        typed(first, "", "", "quit")
    again = session_on(timeline, tmp_path)
    assert again.resume() == 2
    assert again.search.belief.suspects() == first.search.belief.suspects()
    found, _ = typed(again, *[""] * 20)
    assert found.after.commit == timeline.commits[17].sha
    known = {entry.name for entry in first.entries}
    probed = [timeline.commits[index].sha[:10] for index in again.search.runner.asked]
    assert not known & set(probed[2:-2])  # all but the ends and the confirmation


def test_a_bisect_that_is_not_resumed_starts_a_new_journal_and_keeps_the_old_one(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session_on(timeline, tmp_path).record(5, Verdict.GOOD)
    again = session_on(timeline, tmp_path)
    again.record(30, Verdict.BAD)
    again.record(29, Verdict.BAD)
    assert [entry.verdict for entry in again.journal.read()] == [Verdict.BAD, Verdict.BAD]
    assert "good" in again.journal.path.with_suffix(".before").read_text()


def test_unknown_words_print_help_and_change_nothing(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path)
    before = session.search.belief.suspects()
    with pytest.raises(Interrupted):
        typed(session, "frobnicate", "good nowhere", "jump", "show", "log", "other", "undo", "quit")
    assert session.search.belief.suspects() == before


def test_the_other_failure_can_be_bisected_instead(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path, "P" * 10 + "G" * 10 + "F" * 20)
    session.probe(15)
    assert session.switch_failure().failure_class == "class-G"
    assert session.search.belief.bounds[1] == 15


def test_a_journal_survives_a_line_cut_short(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["a"])
    journal.add(JournalEntry("abc1234", Verdict.GOOD, "probe", "compiled"))
    with journal.path.open("a") as sink:
        sink.write('{"name": "def56')
    assert [entry.name for entry in journal.read()] == ["abc1234"]
    assert Journal(tmp_path, ["b"]).path != journal.path


@each_damage
def test_a_damaged_line_of_a_journal_is_skipped(tmp_path: Path, damage: str) -> None:
    journal = Journal(tmp_path, ["a"])
    entries = [JournalEntry(f"3.{number}.0", Verdict.GOOD, "person", "because") for number in range(3)]
    for entry in entries:
        journal.add(entry)
    lines = journal.path.read_bytes().splitlines()
    journal.path.write_bytes(b"\n".join([lines[0], DAMAGE[damage](lines[1]), lines[2]]))
    assert journal.read() == (entries[0], entries[2])


def test_no_flipped_bit_of_a_journal_changes_a_verdict(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["a"])
    journal.add(JournalEntry("3.2.0", Verdict.GOOD, "person"))
    data = journal.path.read_bytes()
    for bit in range(8 * (len(data) - 1)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        journal.path.write_bytes(flipped)
        assert journal.read() == ()


def test_a_journal_of_a_version_without_checksums_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["a"])
    journal.path.write_text('{"name": "3.2.0", "verdict": "bad", "by": "probe", "why": "x"}\n')
    assert journal.read() == (JournalEntry("3.2.0", Verdict.BAD, "probe", "x"),)


@given(
    st.lists(st.tuples(st.text("0123456789abcdef", min_size=40, max_size=40), st.sampled_from(Verdict)), max_size=8),
    st.sampled_from(BisectKind),
)
def test_git_logs_are_written_and_read(verdicts: list[tuple[str, Verdict]], kind: BisectKind) -> None:
    entries = [JournalEntry(sha, verdict, "person", "because") for sha, verdict in verdicts]
    assert list(from_git_log(git_log(entries, kind), kind, "log")) == entries


def test_gits_words_mean_the_side_of_the_change() -> None:
    """Git allows `good` only for the older side, whatever the words say about the failure."""
    old, new, skipped = "1" * 40, "2" * 40, "3" * 40
    logs = {
        "good": f"git bisect good {old}\ngit bisect bad {new}\n",
        "old": f"git bisect start\ngit bisect old {old}\ngit bisect new {new}\n",
        "terms": "git bisect start '--term-old' 'broken' '--term-new' 'fixed'\n"
        f"git bisect broken {old}\ngit bisect fixed {new}\n",
    }
    for text in logs.values():
        entries = from_git_log(f"{text}git bisect skip {skipped}\n", BisectKind.FIX, "log")
        assert [entry.verdict for entry in entries] == [Verdict.BAD, Verdict.GOOD, Verdict.SKIP]
    with pytest.raises(BadInput, match="log:1:1"):
        from_git_log(f"git bisect fixed {new}\n", BisectKind.FIX, "log")


def test_a_log_that_contradicts_an_end_is_refused(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    session = session_on(timeline, tmp_path)
    with pytest.raises(BadInput, match="wrong side"):
        session.take_in([JournalEntry(timeline.commits[39].sha, Verdict.GOOD, "person")])


def test_a_line_that_is_not_of_a_git_log_is_named() -> None:
    with pytest.raises(BadInput, match=r"bisect\.log:2:1"):
        from_git_log("git bisect start\nrm -rf /\n", BisectKind.REGRESSION, "bisect.log")


def test_a_verdict_about_a_commit_without_effect_counts_for_the_one_before(timeline: Timeline, tmp_path: Path) -> None:  # noqa: F811
    span = timeline.between(timeline.commits[0].sha, timeline.commits[39].sha)
    candidates = commit_candidates(timeline, span, [EverySource()], lambda path: path != "notes.txt")
    line = CommitCandidates(timeline, "iree", candidates, {})
    search = BisectSearch(CommitRunner(timeline, LETTERS), case_named("case"), line)
    assert search.begin()
    session = Session(search, Journal(tmp_path, ["case"]))
    session.take_in(from_git_log(f"git bisect bad {timeline.commits[18].sha}", BisectKind.REGRESSION, "log"))
    assert search.belief.bounds == (0, 12)
