"""Bisects of commits in real repositories: a confirmed culprit is always a true one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.bisect import letters
from tests.bisect.clones import EverySource, request_in, use_sources
from tests.fake_engine import FakeEngine
from tests.git_history.history import History
from triage.bisect.releases import bisect_between, plan_search
from triage.bisect.result import Answer, BisectKind
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable

COUNT, CULPRIT = 40, 17
pytestmark = pytest.mark.usefixtures("folder")
Straight = tuple[Path, list[str]]
"""A clone, and its commits, oldest first."""
Branched = tuple[History, dict[str, str]]
"""A clone, and its commits by name."""


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Straight:
    """Every third commit touches only a text file."""
    history = History.begin(tmp_path_factory.mktemp("repo"))
    history.git("remote add origin https://github.com/owner/project")
    names = ["notes.txt", "part1.cpp", "part2.cpp"] * COUNT
    shas = [
        history.commit(f"Change number {number} (#{100 + number})", {name: str(number)})
        for number, name in enumerate(names[:COUNT])
    ]
    return history.path, shas


def all_commits(straight: Straight) -> tuple[Any, str, str]:
    """Return a request for a bisect of all commits, and the ends."""
    repo, shas = straight
    states = {sha: "PF"[number >= CULPRIT] for number, sha in enumerate(shas)}
    releases = {"1.0.0": shas[0], "2.0.0": shas[-1]}
    return request_in(repo, states, releases), f"commit:{shas[0]}", f"commit:{shas[-1]}"


def test_a_culprit_is_described_and_what_cannot_change_the_compiler_is_no_candidate(
    straight: Straight, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the package of 18, which is the same, is taken
    use_sources(monkeypatch, EverySource([CULPRIT]))
    request, *ends = all_commits(straight)
    answer = bisect_between(request, *ends)
    assert (answer.status, answer.confirmed) == (Answer.CULPRIT, True)
    [culprit] = answer.suspects
    shas = straight[1]
    assert (culprit.commit, culprit.pull_request) == (shas[CULPRIT], 117)
    assert culprit.url == "https://github.com/owner/project/pull/117"
    assert culprit.files == ("part2.cpp",)
    asked = {job.ref.revision.commit for job in request.engine.asked}
    assert len(asked) <= 9  # both ends, and log2(39) + 1 others
    assert not asked & set(shas[3::3])


def obtained(straight: Straight) -> Path:
    """Obtain the compiler of the fifth candidate."""
    search: Any = plan_search(*all_commits(straight))
    path: Path = search.line.candidates[4].ref.obtain()
    return path


def test_a_source_that_fails_does_not_end_a_bisect_that_another_serves(
    straight: Straight, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = EverySource(down=EnvironmentFailure("the server does not answer"))
    # the cheapest is tried first
    expired = EverySource(seconds=0.5, expired=Unobtainable("it was removed"))
    use_sources(monkeypatch, down, EverySource(), expired)
    assert obtained(straight) == Path("/compilers/5")
    use_sources(monkeypatch, down)
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        obtained(straight)
    use_sources(monkeypatch, down, expired)
    with pytest.raises(Unobtainable, match="every: it was removed"):
        obtained(straight)


def test_a_package_that_was_built_from_another_commit_is_not_taken(
    straight: Straight, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = straight[1][3]
    monkeypatch.setattr(FakeEngine, "reported_commit", lambda *_: other)
    with pytest.raises(Unobtainable, match=f"built from {other[:10]}, not from"):
        obtained(straight)


def test_a_number_that_changed_between_two_releases_is_searched_by_commits(
    straight: Straight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters.failure, "__defaults__", ("metric",))
    request, *_ = all_commits(straight)
    answer = bisect_between(request, "1.0.0", "2.0.0")
    assert answer.status is Answer.CULPRIT
    assert answer.suspects[0].commit == straight[1][CULPRIT]


def is_true(answer: Any, states: dict[str, str], history: History) -> bool:
    """Return whether a confirmed culprit really changes the outcome of its first
    parent, in the way that the answer says.
    """
    [culprit] = answer.suspects
    before, after = answer.before.commit, answer.after.commit
    parent = history.git("rev-parse", f"{culprit.commit}^")
    is_change = (states[before], states[after]) == answer.kind.in_order("P", "F")
    return is_change and (before, after) == (parent, culprit.commit)


def search_one(seed: int, folder: Path) -> bool | None:
    """Bisect between two branches of a random history, and return whether a culprit is
    confirmed; None if the ends of the branches are alike.
    """
    randomly = random.Random(seed)
    history = History.begin(folder / str(seed))
    states: dict[str, str] = {}

    def grow(count: int, state: str = "P") -> list[str]:
        """Commit on the branch, whose last commit is in a state."""
        shas = []
        for _ in range(count):
            number = len(states)
            shas.append(history.commit("", {f"part{number}.cpp": str(number)}))
            choices = [state, "FP"[state == "F"], "U"]
            [state] = randomly.choices(choices, [7, 2, 1])
            states[shas[-1]] = state
        return shas

    main = grow(randomly.randint(6, 14))
    ends = []
    for _ in range(2):
        start = randomly.choice(main)
        history.git("switch --quiet --detach", start)
        ends.append(grow(randomly.randint(1, 6), states[start])[-1])
    history.git("switch --quiet main")
    pair = [states[end] for end in ends]
    if set(pair) != {"P", "F"}:
        return None
    kind = BisectKind.REGRESSION if pair == ["P", "F"] else BisectKind.FIX
    releases = dict(zip(("1.0.0", "2.0.0"), ends, strict=True))
    request = request_in(history.path, states, releases, kind)
    try:
        answer = bisect_between(request, *releases)
    except BadInput:  # the new end left the main line before the old one
        return None
    is_culprit = answer.status is Answer.CULPRIT
    assert not is_culprit or is_true(answer, states, history), (seed, answer)
    return is_culprit


@pytest.mark.parametrize("count", [12, pytest.param(120, marks=pytest.mark.slow)])
def test_a_confirmed_culprit_of_a_branched_history_is_true(
    count: int, folder: Path
) -> None:
    answers = [search_one(seed, folder) for seed in range(count)]
    assert answers.count(True) >= count // 12, answers


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Branched:
    """Two release branches, as Triton names them. 3.1.0 left main after change 2, and
    has a revert; 3.2.0 left it after 4, with a cherry-pick of 6 and a commit of its own.
    """
    history = History.begin(tmp_path_factory.mktemp("branched"))
    shas = {}
    for number in "01234567":
        subject = f"Change {number} (#10{number})"
        shas[number] = history.commit(subject, {f"part{number}.cpp": number})
    history.git("switch --quiet --create release/3.1.x", shas["2"])
    revert = {"part1.cpp": "int part;"}
    shas["revert"] = history.commit('Revert "Change 1 (#101)"', revert)
    history.git("tag -a -m 3.1.0 v3.1.0")
    history.git("switch --quiet --create release/3.2.x", shas["4"])
    history.git("cherry-pick", shas["6"])
    shas["picked"] = history.head()
    shas["own"] = history.commit("Set the version", {"setup.py": "version = '3.2.0'"})
    history.git("tag v3.2.0")
    history.git("switch --quiet main")
    return history, shas


@pytest.mark.parametrize(
    ("failing", "is_found"),
    [
        ("picked own 6 7", True),
        # only the branch of the old end has the fix: no commit of main is the culprit
        ("0 1 2 3 4 5 6 7 picked own", False),
    ],
)
def test_a_change_of_one_branch_only(
    branched: Branched, failing: str, is_found: bool
) -> None:
    history, shas = branched
    states = {sha: "PF"[name in failing.split()] for name, sha in shas.items()}
    tagged = {"3.1.0": shas["revert"], "3.2.0": shas["own"]}
    request = request_in(history.path, states, tagged, reported=False)
    answer: Any = bisect_between(request, "3.1.0", "3.2.0")
    assert answer.confirmed is is_found
    assert answer.status is (Answer.CULPRIT if is_found else Answer.SUSPECTS)
    [suspect] = answer.suspects
    if is_found:
        assert suspect.commit == shas["picked"]
        assert is_true(answer, states, history)
    else:
        assert answer.before.name == "3.1.0"
        assert "the branch of the old end, whose commits" in suspect.reasons[0]


def test_a_release_without_one_commit_of_its_tags_is_refused(
    branched: Branched,
) -> None:
    history, shas = branched
    request = request_in(history.path, {}, {"3.1.0": "", "3.3.0": ""})
    with pytest.raises(BadInput, match="has no tag of it"):
        bisect_between(request, "3.1.0", "3.3.0")
    history.git("tag letters-3.1.0", shas["2"])
    with pytest.raises(BadInput, match="tags of different commits"):
        bisect_between(request, "3.1.0", "main")
    history.git("tag --delete letters-3.1.0")
