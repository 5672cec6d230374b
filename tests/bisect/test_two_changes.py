"""Where a case broke in any way, and where its failure came, if these are two changes:
over commits next to `git bisect run`, over releases, and in histories of any kind.
"""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bisect import letters
from tests.bisect.tiny_compiler import answered, between, repository, write_case
from tests.conftest import Triage
from triage.bisect.result import Answer, BisectKind
from triage.bisect.search import find_changes

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
    said = ""
    for words in (["start", shas[-1], shas[0]], ["run", "sh", script], ["reset"]):
        git = ["git", "bisect", *words]
        said += subprocess.run(git, cwd=clone, stdout=subprocess.PIPE, text=True).stdout
    first = re.search(r"^(\w{40}) is the first bad commit", said, re.MULTILINE)
    several = said.partition("could be any of:")[2]
    named = [first[1]] if first else re.findall(r"^\w{40}$", several, re.MULTILINE)
    return {shas.index(sha) for sha in named}


def pair(change: dict[str, Any], shas: list[str]) -> tuple[int, int]:
    before, after = (shas.index(change[key]["commit"]) for key in ("before", "after"))
    return before, after


@pytest.mark.parametrize(
    ("history", "kind", "this"),
    [
        # a missing name and a usage message say nothing about this failure
        ("PPPNNHHNFFFF", "regression", (2, 8)),
        ("FFFFGGGGNPPP", "fix", (3, 4)),
    ],
)
def test_commits_are_answered_as_by_git_and_for_this_failure(
    history: str,
    kind: str,
    this: tuple[int, int],
    triage: Triage,
    workplace: Path,
    home: Path,
    tmp_path: Path,
) -> None:
    clone = tmp_path / "clone"
    shas = repository(history, clone)
    write_case(workplace)
    good, bad = (shas[0], shas[-1]) if kind == "regression" else (shas[-1], shas[0])
    words = ["bisect", "r.yaml", "--find", kind, *between(clone, good, bad)]
    done = triage(*words, "-j", "1", "--format", "json")
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


@settings(max_examples=500, deadline=None)
@given(
    st.text("PPPFFFGNUX", max_size=60),
    st.sampled_from(["F", "N"]),
    st.sampled_from(BisectKind),
    st.integers(1, 4),
    st.integers(0, 1 << 32),
)
def test_both_changes_are_true_and_the_best_possible(
    inside: str, last: str, kind: BisectKind, jobs: int, seed: int
) -> None:
    """Prices and suspicions are of any kind, those of the culprit included. X is known
    to have no compiler.
    """
    history = f"P{inside}{last}"
    line = history if kind is BisectKind.REGRESSION else history[::-1]
    randomly = random.Random(seed)
    prices = [randomly.choice((0.0, 5.0, 1800.0)) for _ in line]
    suspicion = [randomly.gammavariate(0.3, 1) + 1e-4 for _ in line]
    shut = [index for index, letter in enumerate(line) if letter == "X"]
    engine = letters.HistoryEngine(line, jobs)
    search = letters.search_along(engine, prices, suspicion, kind, shut)
    found = find_changes(search)
    assert "X" not in {line[index] for index in engine.indices}
    assert found.status is not Answer.INCONCLUSIVE
    assert abs(sum(one.probability for one in found.suspects) - 1) < 0.01
    assert found.broke
    assert found.broke.confirmed

    def at(change: Any) -> tuple[int, int, str]:
        """Return the pair as if it were one of a regression, and what is between."""
        ends = letters.pair(change)
        if kind is BisectKind.FIX:
            ends = tuple(len(line) - 1 - index for index in reversed(ends))
        first, final = ends
        return first, final, history[first + 1 : final]

    # any failure and any refusal counts as not passing
    first, final, between = at(found.broke)
    assert history[first] == "P"
    assert history[final] in "FGN"
    assert set(between) <= {*"UX"}
    assert found.broke.status is (
        Answer.CULPRIT if final == first + 1 else Answer.SUSPECTS
    )
    # this failure: what is refused says nothing about it
    if last == "N":
        assert found.changed is None
        return
    low, high, between = at(found)
    assert history[low] in "PG"
    assert history[high] == "F"
    # not each of a stretch of refusals is probed
    assert set(between) <= {*"UX"} or "N" in between
    assert (found.status is Answer.CULPRIT) == (high == low + 1 and final == first + 1)
    assert first <= low
    assert (found.changed is None) == ((first, final) == (low, high))
