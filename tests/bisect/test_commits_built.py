"""Commit bisects whose compilers are really built: by the project's own commands, or by
a script.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bisect.driving import BUILD, CULPRIT, answered, counted, is_culprit, words
from tests.bisect.small_compiler import Fate, SmallCompiler
from tests.conftest import Triage
from tests.git_history.test_checkout import snapshot


def test_commits_built_from_source(
    misleading: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    triage: Triage,
    home: Path,
    calls: Path,
) -> None:
    before = snapshot(misleading.path)
    found = answered(triage(*words(misleading, recipe, project(BUILD), "--jobs", "2")))
    assert snapshot(misleading.path) == before
    assert is_culprit(found, misleading)
    assert found["probes"] <= 26
    for one in found["untestable"]:
        at = misleading.shas.index(one["toolchain"]["commit"])
        assert misleading.fates[at] is Fate.BROKEN
        assert "does not build" in one["reason"]
        log = Path(one["reason"].rpartition("(log: ")[2].rstrip(")"))
        assert "redefinition of" in log.read_text()
    for one in found["other_failures"]:
        assert misleading.fates[misleading.shas.index(one["toolchain"]["commit"])] in (
            Fate.OTHER,
            Fate.CRASH,
        )
    built = counted(calls, "build")
    # what fails in a used build folder is tried again in an empty one
    assert max(built.values()) <= 2
    # All of it is known now: not one build, and compiles of the pair alone, which is
    # always confirmed.
    calls.unlink()
    again = answered(triage(*words(misleading, recipe, project(BUILD))))
    assert is_culprit(again, misleading)
    assert not counted(calls, "build")
    assert set(counted(calls)) == {
        misleading.shas[CULPRIT - 1],
        misleading.sha,
        misleading.shas[-1],
    }


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_script_that_builds(
    misleading: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    jobs: int,
) -> None:
    found = answered(triage(*words(misleading, recipe, command, "--jobs", str(jobs))))
    assert is_culprit(found, misleading)
    if (
        jobs == 1
        # the ends, ceil(log2 239) + 1 between, the pair three times again, the failing
        # end six times, and what said nothing
    ):
        assert found["probes"] <= 2 + 9 + 6 + 6 + len(found["untestable"]) + len(
            found["other_failures"]
        )
    else:
        assert found["rounds"] <= 11


def test_an_end_whose_compiler_cannot_be_obtained_is_the_environments_fault(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
) -> None:
    found = answered(triage(*words(small, recipe, command, first=25)), status=4)
    assert found["status"] == "inconclusive"
    assert small.shas[25][:10] in found["reason"]


def test_an_environment_that_builds_nothing_ends_the_search_at_once(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
) -> None:
    """It has no compiler, with the same error for every commit."""
    script = command.parents[1] / "toolchain.sh"
    ends = f"{small.shas[0]}|{small.shas[-1]}"
    script.write_text(
        script.read_text().replace(
            "set -e\n",
            f'set -e\ncase "$TRIAGE_COMMIT" in {ends}) ;; *) exit 1 ;; esac\n',
        )
    )
    done = triage(*words(small, recipe, command, "--jobs", "1"))
    found = answered(done, status=4)
    assert (found["status"], found["confirmed"]) == ("suspects", False)
    assert "no compiler could be obtained" in found["reason"]
    assert found["probes"] <= 7
    lines = [line for line in done.stderr.splitlines() if "suspects left" in line]
    assert len(lines) == len(set(lines))
