"""Count what finding a culprit takes, next to `git bisect run`.

Made repositories of 41 commits hold a compiler
that is one Python file. The peer runs the same compiler, without a check of the ends
and without repeating a test. A real one has a commit for each release of Cython, made
of what PyPI has; there the peer also runs with both.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version
from pypi_simple import PyPISimple
from requests import ConnectionError  # noqa: A004 - of the index

from benchmarks.common import TRIAGE, Ratio, cost_of, new_home, show
from tests.bisect.tiny_compiler import repository, write_case
from tests.git_history.history import ENV, History

BROKE = 27
HISTORIES = {
    "each commit builds": "P" * BROKE + "F" * 14,
    "another failure before": "P" * BROKE + "G" * 6 + "F" * 8,
    "a quarter does not build": "PPPPPPBBBBPPPPBBPPPPBBPPPPPF" + "FFFBBFFFFBBFF",
    "fails in 4 of 5 runs": "P" * BROKE + "S" * 14,
}
CYTHON = Path("docs/examples/cython")
OLDEST, CHANGED, NEWEST = map(Version, ("0.29.16", "3.0.0b1", "3.0.12"))
TEST = """#!/bin/sh
echo tested >> {calls}
test -f tinyc.py || exit 125
python3 tinyc.py {program} && exit 0
exit 1
"""
CYTHON_TEST = """#!/bin/sh
echo tested >> {calls}
python3 cython.py -3 {program} -o {program}.c && exit 0
exit 1
"""
BARE = """git bisect start {last} {first} && git bisect run {test}
"""
CHECKED = """git checkout -q {first} && {test} || exit 9
git checkout -q {last} && {test} && exit 9
git bisect start {last} {first} && git bisect run {test}
bad=$(git rev-parse refs/bisect/bad)
git checkout -q $bad~1 && {test} || exit 9
git checkout -q $bad && {test} && exit 9
exit 0
"""


class Bisected(NamedTuple):
    """What a bisect cost, and what its answer is worth."""

    cpu: float
    tests: int
    verdict: str


def with_triage(
    folder: Path, recipe: str, shas: list[str], broke: int, env: dict[str, str]
) -> Bisected:
    """Bisect with triage, which verifies the ends and probes the pair again. broke: the
    index of the culprit.
    """
    ends = ["--good", f"commit:{shas[0]}", "--bad", f"commit:{shas[-1]}"]
    words = ["bisect", recipe, *ends, "--repo", "clone", "--jobs", "1"]
    command = [*TRIAGE, *words, "--format", "json"]
    done = cost_of(command, cwd=folder, env=env, codes=(0, 3))
    answer = json.loads(done.stdout)
    change = answer["broke"] or answer
    named = [suspect["commit"] for suspect in change["suspects"]]
    verdict = "right" if named == [shas[broke]] else "WRONG"
    if not change["confirmed"]:
        verdict = "not sure"
    return Bisected(done.cpu, answer["probes"], verdict)


def with_git(
    folder: Path, script: str, shas: list[str], broke: int, env: dict[str, str]
) -> Bisected:
    """Bisect with the shell script, which runs `git bisect run`."""
    clone = folder / "clone"
    calls = folder / "calls"
    calls.unlink(missing_ok=True)
    text = script.format(first=shas[0], last=shas[-1], test=folder / "test.sh")
    done = cost_of(["sh", "-c", text], cwd=clone, env=env, codes=(0, 1, 2, 3))
    first = re.search(r"(\w{40}) is the first bad commit", done.stdout)
    tests = len(calls.read_text().splitlines())
    for words in (["bisect", "reset"], ["clean", "-xdfq"]):
        subprocess.run(["git", *words], cwd=clone, env=env, capture_output=True)
    is_right = first and first[1] == shas[broke]
    return Bisected(done.cpu, tests, "right" if is_right else "WRONG")


def write_test(folder: Path, text: str, program: str) -> None:
    test = folder / "test.sh"
    test.write_text(text.format(calls=folder / "calls", program=folder / program))
    test.chmod(0o755)


def ratios_of_made_ones() -> Iterator[Ratio]:
    """Bisect each history with both."""
    for what, letters in HISTORIES.items():
        with new_home() as (folder, env):
            shas = repository(letters, folder / "clone")
            write_case(folder)
            write_test(folder, TEST, "p.c")
            ours = with_triage(folder, "r.yaml", shas, BROKE, env | ENV)
            theirs = with_git(folder, BARE, shas, BROKE, env | ENV)
        title = f"bisect of 40 commits, {what} ({ours.verdict}, git {theirs.verdict})"
        yield Ratio(title, ours.tests, "git bisect run", theirs.tests, "tests")
        yield Ratio("the same, CPU time", ours.cpu, "git bisect run", theirs.cpu, "s")


def commit_releases(folder: Path) -> list[Version]:
    """Commit what each release of Cython has of its compiler, oldest first."""
    history = History.begin(folder)
    archive = folder.with_name("sdist.tar.gz")
    with PyPISimple() as index:
        packages = {
            Version(package.version or "0"): package
            for package in index.get_project_page("Cython").packages
            if package.package_type == "sdist"
        }
        versions = [one for one in sorted(packages) if OLDEST <= one <= NEWEST]
        for version in versions:
            index.download_package(packages[version], archive)
            shutil.rmtree(folder / "Cython", ignore_errors=True)
            with tarfile.open(archive) as files:
                for member in files:
                    member.name = member.name.partition("/")[2]
                    if member.name.startswith(("Cython/", "cython.py")):
                        files.extract(member, folder, filter="data")
            history.commit(f"Cython {version}")
    return versions


def ratios_of_real_one() -> Iterator[Ratio]:
    """Bisect the releases of Cython for the one that accepts no plain callback."""
    with new_home() as (folder, env):
        env |= ENV
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        versions = commit_releases(folder / "clone")
        shas = History(folder / "clone").git("rev-list", "--reverse", "HEAD").split()
        shutil.copytree(CYTHON, folder, dirs_exist_ok=True)
        write_test(folder, CYTHON_TEST, "callback.pyx")
        broke = versions.index(CHANGED)
        ours = with_triage(folder, "callback.yaml", shas, broke, env)
        bare = with_git(folder, BARE, shas, broke, env)
        checked = with_git(folder, CHECKED, shas, broke, env)
    title = (
        f"bisect of {len(shas)} releases of Cython ({ours.verdict}, git {bare.verdict})"
    )
    yield Ratio(title, ours.tests, "git bisect run", bare.tests, "tests")
    yield Ratio("the same, CPU time", ours.cpu, "git bisect run", bare.cpu, "s", 2.2)
    peer = "with checks as ours"
    yield Ratio("the same", ours.tests, peer, checked.tests, "tests")
    yield Ratio("the same, CPU time", ours.cpu, peer, checked.cpu, "s", 1.3)


def ratios() -> Iterator[Ratio]:
    """Bisect made histories and a real one."""
    yield from ratios_of_made_ones()
    try:
        yield from ratios_of_real_one()
    except ConnectionError as error:
        print(f"bisect of 40 releases of Cython: not measured: {error}")


if __name__ == "__main__":
    sys.exit(show(ratios()))
