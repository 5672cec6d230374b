"""Searches on a Dask cluster of real processes give the same answers as on one machine, also when workers die."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.execution.cluster_lab import Lab, until
from tests.fake_releases import FakeReleases, fake_releases, write_case

pytestmark = pytest.mark.slow
#: More than goes with a job, and its candidates soon less.
LINES = "".join(f"line {number} {'x' * 2000}\n" if number != 41 else "this must fail\n" for number in range(60))
TIMES = (
    "started",
    "seconds",
    "compile_seconds",
    "peak_rss_mb",
    "oracle_calls",
    "cached",
    "metrics",
    "probes",
    "rounds",
    "compiles",
)


def reduced(lab: Lab, home: str, executor: str | None = None) -> dict[str, bytes]:
    """Reduce the input `large`, and return the files of its reproducer."""
    out, env = lab.folder / f"out-{home}", {"TRIAGE_EXECUTOR": executor} if executor else {}
    code, answer = lab.triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}", "--out", out, home=home, **env)
    assert (code, answer["status"], answer["program"]) == (0, "reduced", "this must fail\n")
    return {path.name: path.read_bytes() for path in Path(lab.folder, answer["reproducer"]).iterdir()}


def test_reduce_on_workers_writes_the_reproducer_that_it_writes_here(lab: Lab) -> None:
    lab.write(large=LINES)
    here = reduced(lab, "here", "local")
    calls = len(lab.calls())
    lab.worker("first")
    lab.worker("second")
    there = reduced(lab, "client")
    inexact = {"reproducer.json", "README.md", "issue.md"}  # they name times and counts
    assert there.keys() == here.keys()
    assert {name: text for name, text in there.items() if name not in inexact} == {
        name: text for name, text in here.items() if name not in inexact
    }
    workers = {call[1] for call in lab.calls()[calls:]}
    assert len(workers) == 2, "both workers compile, and the client does not"
    for name in ("first", "second"):
        left = list((lab.folder / f"home-{name}" / "delivered").rglob("*.txt"))
        assert not left, "inputs are removed"


def test_the_compile_of_a_candidate_ends_when_its_client_is_gone(lab: Lab) -> None:
    lab.write(large="this must fail\n" + "wait\n" * 3)
    lab.worker("first")
    process = lab.start_triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}")
    until(lab.calls, "the original is compiled")
    process.kill()
    lab.ended(process)
    until(lambda: not Path("/proc", lab.calls()[0][0]).exists(), "the compiler ends")


def facts(value: Any, place: str = "") -> dict[str, Any]:
    """Return the parts of an answer by their places, without times and what depends on the number of workers."""
    if not isinstance(value, dict | list):
        return {place: value}
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    parts = [facts(item, f"{place}/{key}") for key, item in entries if key not in TIMES and "seconds" not in str(key)]
    return {name: item for part in parts for name, item in part.items()}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    """Six releases of a small compiler on an index."""
    with fake_releases(tmp_path_factory.mktemp("releases"), count=6) as made:
        yield made


@pytest.mark.parametrize(
    "words",
    [
        ("history", "cases"),
        ("bisect", "cases/breaks.yaml"),
        ("nightly", "cases", "-t", "latest", "-b", "1.1.0", "--investigate", "--out", "out"),
    ],
    ids=["history", "bisect", "nightly"],
)
def test_searches_answer_as_they_do_here(lab: Lab, releases: FakeReleases, words: tuple[str, ...]) -> None:
    for name, marks in {
        "steady": (),
        "breaks": ("breaks-3",),
        "later": ("breaks-4",),
        "fixed": ("breaks-0", "fixed-3"),
    }.items():
        write_case(lab.folder / "cases", name, *marks)
    index = {"TRIAGE_INDEX_URL": releases.url}
    lab.worker("first", **index)
    lab.worker("second", **index)
    there = lab.triage(*words, **index)
    shutil.rmtree(lab.folder / "out", ignore_errors=True)
    here = lab.triage(*words, home="here", TRIAGE_EXECUTOR="local", **index)
    assert there[0] == here[0] < 2
    ours, theirs = facts(here[1]), facts(there[1])
    assert {
        place: (ours.get(place), theirs.get(place)) for place in ours | theirs if ours.get(place) != theirs.get(place)
    } == {}
