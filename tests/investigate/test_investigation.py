"""From new failures to culprits, reproducers and issue drafts; the compilers are small
programs.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.clones import request_in
from tests.bisect.tiny_compiler import repository
from tests.conftest import ROOT, Triage
from tests.fake_releases import (
    FakeReleases,
    fake_releases,
    write_case,
    write_project,
)
from tests.nights.documents import FAILURES, case_result, night
from tests.programs import TRIAGE, write_program
from triage.bisect.result import Answer
from triage.investigate import investigation
from triage.investigate.result import FailureCluster, StepResult
from triage.reduce.result import IssueDraft
from triage.report.issue import issue_markdown

Json = dict[str, Any]
Investigate = Callable[..., list[Json]]
NIGHTLY = "nightly cases -t latest -b 1.1.0 --jobs 2 --investigate --out out"
CASES = {
    "steady": (),
    "breaks": ("breaks-3",),
    "alike": ("breaks-3",),
    "later": ("breaks-4",),
    "fixed": ("breaks-0", "fixed-3"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    folder = tmp_path_factory.mktemp("releases")
    with fake_releases(folder, count=6, paced=True) as made:
        yield made


@pytest.fixture
def releases(
    served: FakeReleases,
    home: Path,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> FakeReleases:
    monkeypatch.setenv("TRIAGE_INDEX_URL", served.url)
    served.log.unlink(missing_ok=True)
    for name, words in CASES.items():
        write_case(workplace / "cases", name, *words)
    return served


@pytest.fixture
def out(workplace: Path) -> Path:
    return workplace / "out"


@pytest.fixture
def investigate(triage: Triage, out: Path) -> Investigate:
    """Runs a nightly, in which cases fail, and returns its report."""

    def call(line: str = NIGHTLY) -> Json:
        done = triage(*shlex.split(line))
        assert done.returncode == 1, done.stderr
        return json.loads((out / "nightly.json").read_text())

    return call


def names(change: Json) -> tuple[str, str]:
    return change["before"]["name"], change["after"]["name"]


def culprits(report: Json) -> dict[str, tuple[str, str]]:
    """The revisions around the culprit of each case."""
    return {
        name: names(cluster["culprit"])
        for cluster in report["clusters"]
        for name in cluster["cases"]
    }


def statuses(cluster: Json) -> dict[str, str]:
    return {step["step"]: step["status"] for step in cluster["steps"]}


@pytest.mark.slow
def test_an_interrupted_run_is_continued_until_each_cluster_has_culprit_and_issue(
    releases: FakeReleases, investigate: Investigate, workplace: Path, out: Path
) -> None:
    running = subprocess.Popen(
        [*TRIAGE, *NIGHTLY.split()],
        cwd=workplace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # until it reduces
    while len({digest for _, digest in releases.events("start")}) <= 5:
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    running.send_signal(signal.SIGTERM)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130, message
    report = json.loads((out / "nightly.json").read_text())
    assert (report["partial"], report["stopped"]) == (True, "interrupted")
    assert report["clusters"][0]["culprit"]["after"]["name"] == "1.3.0"
    assert "left" in [statuses(cluster)["reduce"] for cluster in report["clusters"]]
    [line] = re.findall(r"^  triage (.*)", message, re.MULTILINE)
    report = investigate(line)
    assert not report["partial"]
    at, after = ("1.2.0", "1.3.0"), ("1.3.0", "1.4.0")
    assert culprits(report) == {"alike": at, "breaks": at, "later": after}
    first, second = report["clusters"]
    # the first that fails as fast
    assert (first["representative"], second["representative"]) == ("alike", "later")
    assert sorted(first["cases"]) == ["alike", "breaks"]
    assert first["confirmed"] == ["breaks"]
    assert first["different"] == second["cases"] == ["later"]
    assert second["id"] == f"{first['id']}.2"
    for cluster in report["clusters"]:
        steps = statuses(cluster)
        # the compiler has no options that print IR
        assert steps["bisect"] == steps["reduce"] == "done"
        assert steps["attribute"] == "failed"
        assert "left" not in steps.values()
        first_bad = cluster["culprit"]["after"]["name"]
        bad = [version for version in releases.versions if version >= first_bad]
        replays = cluster["replays"]
        assert [name for name in replays if replays[name] == "reproduces"] == bad
        small = (out / cluster["reproducer"] / "input.mlir").read_text()
        issue = (out / cluster["issue"]).read_text()
        assert small.strip() in issue
        assert first_bad in issue
    # another run compiles nothing else; a pair is confirmed anew
    known = set(releases.events("start"))
    investigate()
    assert set(releases.events("start")) == known


def test_what_a_budget_leaves_has_a_draft_and_the_same_line_does_it(
    with_releases: None, investigate: Investigate, workplace: Path, out: Path
) -> None:
    program = write_case(workplace / "cases", "breaks", "breaks-3").with_suffix(".mlir")
    report = investigate(f"{NIGHTLY} --budget 0.000001s")
    [cluster] = report["clusters"]
    assert statuses(cluster) == dict.fromkeys(investigation.STEPS, "left")
    # what the two toolchains say is not lost
    assert names(cluster["culprit"]) == ("1.1.0", "1.5.0")
    assert not cluster["culprit"]["confirmed"]
    text = program.read_text()
    assert cluster["draft"]["files"] == {"input.mlir": text}
    issue = (out / cluster["issue"]).read_text()
    for part in (text, "iree-compile", " input.mlir ", "286720 bytes"):
        assert part in issue
    assert not report["partial"]
    [cluster] = investigate(NIGHTLY)["clusters"]
    assert "last good: 1.2.0" in (out / cluster["issue"]).read_text()


@pytest.mark.slow
def test_a_pair_of_releases_is_narrowed_by_nightlies(
    home: Path,
    workplace: Path,
    out: Path,
    investigate: Investigate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_case(workplace / "cases", "breaks", "breaks-4")
    write_case(workplace / "cases", "later", "breaks-5", "private")
    write_case(workplace / "cases", "changed", "breaks-0", "differs-3")
    folder = workplace / "releases"
    with fake_releases(folder, 2, nightlies=5, then_released=True) as releases:
        monkeypatch.setenv("TRIAGE_INDEX_URL", releases.url)
        write_project(workplace, releases)
        report = investigate()
        days = {
            name: " ".join(end[-2:] for end in ends)
            for name, ends in culprits(report).items()
        }
        assert days == {"breaks": "02 03", "later": "03 04", "changed": "01 02"}
        for cluster in report["clusters"]:
            steps = statuses(cluster)
            assert {steps[name] for name in ("bisect", "narrow", "reduce")} == {"done"}
            # the fake compilers print no IR; of two that fail none is asked for
            is_changed = cluster["cases"] == ["changed"]
            assert steps["attribute"] == ("skipped" if is_changed else "failed")
            assert names(cluster["release_culprit"]) == ("1.1.0", "1.2.0")
            assert "between 1.1.0" in (out / cluster["issue"]).read_text()


def with_commits(folder: Path, history: str) -> tuple[Any, list[str]]:
    """Return a failure between two releases, and the commits between these."""
    shas = repository(history, folder / "clone")
    states = dict(zip(shas, history, strict=True))
    ends = {"1.0.0": shas[0], "2.0.0": shas[-1]}
    request = request_in(folder / "clone", states, ends)
    engine, case = request.engine, request.case
    pair = engine.registry.releases("iree")
    work = investigation.Investigation(engine, pair, {}, repo=request.repo)
    record = FailureCluster(signature="", cases=[case.name])
    return investigation.ClusterInvestigation(work, record, case, pair=pair), shas


def test_a_pair_of_releases_is_narrowed_by_the_commits_between_them(
    folder: Path,
) -> None:
    cluster, shas = with_commits(folder, "PPPPPGGGFFFF")
    assert cluster.narrow() is None
    culprit = cluster.record.culprit
    assert (culprit.status, culprit.confirmed) == (Answer.CULPRIT, True)
    assert culprit.broke.after.commit == shas[5]
    assert [ref.revision.commit for ref in cluster.pair] == shas[7:9]
    assert [suspect.pull_request for suspect in culprit.suspects] == [108]


def test_a_pair_of_releases_stays_where_its_commits_end_otherwise(folder: Path) -> None:
    cluster, _ = with_commits(folder, "FPPF")
    pair = cluster.pair
    assert cluster.narrow()
    assert cluster.pair == pair


# Drafts of issues

# The message has the size of the program.
LINES = "".join(f"keep {number}\n" for number in range(12))
RECIPE = """name: sized
compiler: command
input: program.txt
command: ["{toolchain}/compile", "{input}"]
"""
BAD = """#!/bin/sh
grep -q keep "$1" || exit 0
echo "$1:1:1: error: the program needs $(wc -c < "$1") bytes" >&2
exit 1
"""


def test_a_draft_is_the_text_of_the_reproducer_with_the_number_of_the_original(
    home: Path, workplace: Path, investigate: Investigate, out: Path
) -> None:
    write_program(workplace / "good" / "compile", "#!/bin/sh\nexit 0\n")
    write_program(workplace / "bad" / "compile", BAD)
    (workplace / "program.txt").write_text(LINES)
    (workplace / "sized.yaml").write_text(RECIPE)
    line = "nightly sized.yaml -t path:bad -b path:good --investigate --out out"
    [cluster] = investigate(line)["clusters"]
    draft = (out / cluster["issue"]).read_text()
    [small] = cluster["draft"]["files"].values()
    assert len(small) < len(LINES)
    _, happened, steps, *others = re.split(r"^### ", draft, flags=re.MULTILINE)
    original, reduced = (f"needs {len(text)} bytes" for text in (LINES, small))
    assert original in happened
    assert reduced not in "".join([happened, *others])
    assert reduced in steps
    assert original not in steps
    readme = (out / cluster["reproducer"] / "README.md").read_text()
    headings = [re.findall(r"^### .*", text, re.MULTILINE) for text in (draft, readme)]
    assert headings[0] == headings[1]
    assert steps[steps.index("`input.txt`") :] in readme


def test_what_is_too_long_or_binary_is_named_and_what_is_long_is_folded() -> None:
    record = night(1, {}, cases=[case_result("a", "F")])
    line = "module {}\n"
    files = {"weights.bin": None, "short.mlir": line, "long.mlir": line * 200}
    draft = IssueDraft(files, "compile short.mlir", headline=FAILURES["F"].headline)
    [cluster] = record.clusters
    whole = replace(cluster, draft=draft, steps=[StepResult("reduce", "left")])
    text = issue_markdown(whole, record)
    assert "`weights.bin`" in text
    assert "<summary>long.mlir, 200 lines</summary>" in text
    assert text.index("short.mlir") < text.index("<details>")


@pytest.mark.real
@pytest.mark.slow
def test_a_draft_shows_the_operation_that_its_error_is_about(
    shared_home: Path, investigate: Investigate, out: Path
) -> None:
    """Also where releases print another syntax: those before 3.4.0 one of attention that
    newer ones do not read.
    """
    recipe = ROOT / "recipes" / "llama-attention-aggressive-fusion.yaml"
    line = f"nightly {recipe} -t 3.3.0 -b 3.2.0 --reduce --out out"
    [cluster] = investigate(line)["clusters"]
    draft = cluster["draft"]
    place = re.search(r"input\.mlir:(\d+):(\d+): error", draft["error"])
    assert place
    line, column = map(int, place.groups())
    message = draft["files"]["input.mlir"].splitlines()[line - 1][column - 1 :]
    assert message.strip('"').startswith("iree_linalg_ext.attention")
    assert (out / cluster["reproducer"] / "input.mlir").is_file()
