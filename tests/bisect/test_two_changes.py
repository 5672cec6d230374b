"""Where a case broke in any way, and where its failure came, if these are two changes:
over commits next to `git bisect run`, over releases, and in histories of any kind.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.bisect.driving import answered
from tests.bisect.letters import LetterEngine, plain_range, search_along
from tests.bisect.tiny_compiler import repository, write_case
from tests.conftest import Triage
from tests.git_history.history import ENV
from triage.bisect.changes import find_changes
from triage.bisect.result import Answer, BisectKind

TEST = """#!/bin/sh
test -f tinyc.py || exit 125
python3 tinyc.py PROGRAM && exit CODE
exit $((1 - CODE))
"""


def named_by_git(clone: Path, shas: list[str], program: Path, code: int) -> set[int]:
    """Return the commits that `git bisect run` names. code: of a program that passes,
    1 to search a fix.
    """
    script = program.with_name("test.sh")
    script.write_text(TEST.replace("PROGRAM", str(program)).replace("CODE", str(code)))
    script.chmod(0o755)

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=clone, check=False, capture_output=True, text=True
        )
        return done.stdout

    git("bisect", "start", shas[-1], shas[0])
    found = git("bisect", "run", str(script))
    git("bisect", "reset")
    first = re.search(r"^(\w{40}) is the first bad commit", found, re.MULTILINE)
    several = found.partition("could be any of:")[2]
    named = [first[1]] if first else re.findall(r"^\w{40}$", several, re.MULTILINE)
    return {shas.index(sha) for sha in named}


def pair(change: dict[str, Any], shas: list[str]) -> tuple[int, int]:
    before, after = (shas.index(change[key]["commit"]) for key in ("before", "after"))
    return before, after


@pytest.mark.parametrize(
    ("letters", "kind", "this"),
    [
        # a missing name and a usage message say nothing about this failure
        ("PPPNNHHNFFFF", "regression", (2, 8)),
        ("FFFFGGGGNPPP", "fix", (3, 4)),
    ],
)
def test_commits_are_answered_as_by_git_and_for_this_failure(
    letters: str,
    kind: str,
    this: tuple[int, int],
    triage: Triage,
    workplace: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    clone = tmp_path / "clone"
    shas = repository(letters, clone)
    write_case(workplace)
    ends = [f"commit:{shas[0]}", f"commit:{shas[-1]}"]
    if kind == "fix":
        ends.reverse()
    words = ["bisect", "r.yaml", "--find", kind, "--good", ends[0], "--bad", ends[1]]
    done = triage(*words, "--repo", clone, "-j", "1", "--format", "json")
    exact = this[1] - this[0] == 1
    found = answered(done, status=0 if exact else 3)
    by_git = named_by_git(clone, shas, workplace / "p.c", int(kind == "fix"))
    broke = found["broke"]
    before, after = pair(broke, shas)
    assert set(range(before + 1, after + 1)) == by_git
    assert {shas.index(one["commit"]) for one in broke["suspects"]} == by_git
    assert broke["confirmed"]
    assert pair(found, shas) == this
    assert (found["changed"] is None) == (this == (before, after))


@settings(max_examples=400, deadline=None)
@given(
    st.text("PPPFFFGNU", max_size=40),
    st.sampled_from(["F", "N"]),
    st.sampled_from(BisectKind),
    st.integers(1, 4),
)
@example("GGPPGG", "F", BisectKind.REGRESSION, 1)
@example("NPFGNUP", "F", BisectKind.FIX, 2)
@example("GFNFF", "F", BisectKind.REGRESSION, 1)
@example("GFFFGFNF", "F", BisectKind.FIX, 1)
def test_both_changes_are_true(
    inside: str, last: str, kind: BisectKind, jobs: int
) -> None:
    letters = f"P{inside}{last}"
    line = letters if kind is BisectKind.REGRESSION else letters[::-1]
    search = search_along(LetterEngine(line, jobs), plain_range(len(line)), kind)
    found = find_changes(search)
    assert found.status is not Answer.INCONCLUSIVE
    assert found.broke
    assert found.broke.confirmed
    is_fix = kind is BisectKind.FIX

    def at(change: Any) -> tuple[int, int, str]:
        first, final = (int(one.name[1:]) for one in (change.before, change.after))
        between = line[first + 1 : final]
        if is_fix:  # as if it were a regression, seen from the other end
            first, final = len(line) - 1 - final, len(line) - 1 - first
            between = between[::-1]
        return first, final, between

    # any failure and any refusal counts as not passing
    first, final, between = at(found.broke)
    assert letters[first] == "P"
    assert letters[final] in "FGN"
    assert set(between) <= {"U"}
    assert found.broke.status is (
        Answer.CULPRIT if final == first + 1 else Answer.SUSPECTS
    )
    # this failure: what is refused says nothing about it
    if last == "N":
        assert found.changed is None
        return
    low, high, between = at(found)
    assert letters[low] in "PG"
    assert letters[high] == "F"
    # not each of a stretch of refusals is probed
    assert set(between) <= {"U"} or "N" in between
    assert (found.status is Answer.CULPRIT) == (high == low + 1 and final == first + 1)
    assert first <= low
    assert (found.changed is None) == ((first, final) == (low, high))


@pytest.mark.parametrize("kind", BisectKind)
@pytest.mark.parametrize("width", [1, 2])
def test_another_failure_for_a_while_hides_no_culprit(
    kind: BisectKind, width: int
) -> None:
    for hidden in range(6, 20):
        line = "P" * 5 + "F" * (hidden - 5) + "G" * width + "F" * 15
        if kind is BisectKind.FIX:
            line = line[::-1]
        search = search_along(LetterEngine(line, 1), plain_range(len(line)), kind)
        found = find_changes(search)
        first = 4 if kind is BisectKind.REGRESSION else len(line) - 6
        assert (found.status, found.confirmed) == (Answer.CULPRIT, True)
        assert found.before
        assert found.after
        named = (found.before.name, found.after.name)
        assert named == (f"c{first}", f"c{first + 1}")
