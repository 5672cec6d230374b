"""The example workflow for a nightly, from the checkout to the page, as a runner of
GitHub executes it.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.actions.runner import Runner
from tests.actions.test_workflows import load
from tests.conftest import ROOT
from tests.fake_releases import (
    environment,
    fake_releases,
    write_case,
    write_project,
)
from tests.issues.loopback_issues import TOKEN, LoopbackIssues, loopback_issues
from tests.programs import write_program
from triage.nightly.store import NightStore, read_night
from triage.toolchains.home import Home

WORKFLOW = ROOT / "docs" / "examples" / "nightly.yml"
BAD = """#!/bin/sh
grep -q keep "$1" || exit 0
echo "$1:1:1: error: failed to legalize operation 'x.y'" >&2
exit 1
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one case for each shard; one of them regressed."""
    write_program(tmp_path / "good" / "compile", "#!/bin/sh\nexit 0\n")
    write_program(tmp_path / "bad" / "compile", BAD)
    folder = tmp_path / "checkout" / "recipes"
    folder.mkdir(parents=True)
    (folder / "broken.txt").write_text("keep\ndrop\n")
    (folder / "fine.txt").write_text("drop\n")
    (folder / "small.yaml").write_text(
        "name: small\ncompiler: command\nmatrix: {input: [broken, fine]}\n"
        'input: ${input}.txt\ncommand: ["{toolchain}/compile", "{input}"]\n'
    )
    return folder.parent


def runner(
    root: Path, checkout: Path, hub: LoopbackIssues, run: int, **more: str
) -> Runner:
    toolchains = checkout.parent
    values = {
        "inputs.toolchain || 'nightly:latest'": f"path:{toolchains / 'bad'}",
        "inputs.baseline || 'latest'": f"path:{toolchains / 'good'}",
        "github.token": TOKEN,
        "github.run_id": str(run),
        "github.run_attempt": "1",
        "runner.os": "Linux",
        "github.event.repository.fork": "",
        "vars.TRIAGE_PAGES": "true",
        **more,
    }
    environment = {
        "GITHUB_API_URL": hub.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_SERVER_URL": f"file://{toolchains}/server",
    }
    return Runner(root, checkout, ROOT, values, environment)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_two_nights_of_the_example_workflow(checkout: Path, tmp_path: Path) -> None:
    remote = tmp_path / "server" / "o" / "r"
    remote.mkdir(parents=True)
    git(remote, "init", "--quiet", "--bare")
    with loopback_issues() as hub:
        jobs = runner(tmp_path / "1", checkout, hub, 1).run(WORKFLOW)
        shutil.copytree(tmp_path / "1" / "caches", tmp_path / "2" / "caches")
        # no site is replaced unless a variable of the repository asks for it
        unasked = {"vars.TRIAGE_PAGES": ""}
        again = runner(tmp_path / "2", checkout, hub, 2, **unasked).run(WORKFLOW)
    assert "pages" not in again
    assert list(jobs) == ["revisions", "shard-1", "shard-2", "merge", "pages"]
    shards, merge = [jobs["shard-1"], jobs["shard-2"]], jobs["merge"]
    # a regression fails the job that joins the shards, and only that
    failed = {name: job.failed for name, job in jobs.items() if job.failed}
    assert failed == {"merge": ["Join the shards"]}
    assert [job.outputs["regressed"] for job in shards] == ["1", "0"]
    assert [job.outputs["failing"] for job in shards] == ["1", "0"]
    for job in shards:
        assert (job.workspace / job.outputs["json"]).is_file()
        assert job.summary.count("1 of 1 cases newly fail") == int(job is shards[0])
    assert "1 of 2 cases newly fail" in merge.summary
    artifacts = tmp_path / "1" / "artifacts"
    night = read_night(artifacts / "nightly")
    assert [(case.case, case.change.value) for case in night.cases] == [
        ("small[input=broken]", "regressed"),
        ("small[input=fine]", "passing"),
    ]
    [cluster] = night.clusters
    assert (artifacts / "nightly" / str(cluster.reproducer) / "README.md").is_file()
    page = (artifacts / "github-pages" / "index.html").read_text()
    assert "legalize operation" in page
    assert [issue["state"] for issue in hub.issues.values()] == ["open"]
    assert hub.tokens == {f"token {TOKEN}"}
    for job in (*shards, merge):
        asked = (job.folder / "temp" / "installed").read_text()
        assert asked == f"{ROOT}[github]\n"
        assert TOKEN not in job.summary
        # the job keeps its own programs
        path = job.environment["PATH"]
        for name in ("python", "pip", "iree-compile"):
            assert shutil.which(name, path=path) == str(job.folder / "bin" / name)
    # the second run finds the first one's nights and results, and opens no issue again
    nights = again["merge"].workspace / "nights"
    assert len(NightStore(Home(nights)).numbers()) == 2
    pushed = git(remote, "ls-tree", "-r", "--name-only", "triage-nights").split()
    stored = [name for name in pushed if name.endswith(".json.z")]
    assert [name.rpartition("/")[0] for name in stored] == [
        f"nights-11/{number}" for number in (1, 2)
    ]
    assert not [name for name in pushed if "short" in name or ".lock" in name]
    assert read_night(tmp_path / "2" / "artifacts" / "nightly").compiles == 0


def test_nothing_runs_on_a_fork(checkout: Path, tmp_path: Path) -> None:
    fork = {"github.event.repository.fork": "true"}
    actions = runner(tmp_path / "1", checkout, LoopbackIssues(), 1, **fork)
    assert actions.run(WORKFLOW) == {}


def test_what_is_latest_is_asked_once_for_all_shards(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "recipes" / "small.yaml").unlink()
    write_case(checkout / "recipes", "steady")
    asked = {
        "inputs.toolchain || 'nightly:latest'": "nightly:latest",
        "inputs.baseline || 'latest'": "latest",
    }
    actions = runner(tmp_path / "1", checkout, LoopbackIssues(), 1, **asked)
    with fake_releases(tmp_path / "releases", count=2, nightlies=2) as releases:
        write_project(checkout, releases)
        served = environment(releases, tmp_path / "home")
        actions = replace(actions, environment={**actions.environment, **served})
        [job] = actions.run(WORKFLOW, only="revisions").values()
    resolved = [
        job.values[f"steps.resolve.outputs.{name}"]
        for name in ("toolchain", "baseline")
    ]
    assert resolved == ["1.2.0rc20260102", "1.1.0"]
    given = load(WORKFLOW)["jobs"]["shard"]["steps"][1]["with"]
    for name in ("toolchain", "baseline"):
        assert given[name].strip("${ }") == f"needs.revisions.outputs.{name}"
