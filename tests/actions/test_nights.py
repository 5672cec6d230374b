"""The example workflow for a nightly, from the checkout to the page, as a runner of
GitHub executes it; and the action on the packages of a pull request.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.actions.runner import OWN, PROGRAMS, WORKFLOW, Runner, load
from tests.conftest import ROOT
from tests.fake_releases import environment, fake_releases, write_case, write_project
from tests.git_history.history import History
from tests.issues.loopback_issues import TOKEN, LoopbackIssues, loopback_issues
from tests.programs import write_program
from triage.nightly.result import Night
from triage.nightly.store import NightStore, read_night
from triage.toolchains.home import Home

BAD = """#!/bin/sh
grep -q keep "$1" || exit 0
echo "$1:1:1: error: failed to legalize operation 'x.y'" >&2
exit 1
"""
SMALL = """name: small
compiler: command
matrix: {input: [broken, fine]}
input: ${input}.txt
command: ["{toolchain}/compile", "{input}"]
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
    (folder / "small.yaml").write_text(SMALL)
    return folder.parent


def runner(checkout: Path, hub: LoopbackIssues, run: int = 1, **more: str) -> Runner:
    """Return the runner of one run of the workflow; its folder is called `run`."""
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
    return Runner(toolchains / str(run), checkout, values, environment)


def changes(night: Night) -> dict[str, str]:
    return {case.case: case.change.value for case in night.cases}


@pytest.mark.slow
def test_two_nights_of_the_example_workflow(checkout: Path, tmp_path: Path) -> None:
    remote = History(tmp_path / "server" / "o" / "r")
    remote.path.mkdir(parents=True)
    remote.git("init --quiet --bare")
    with loopback_issues() as hub:
        jobs = runner(checkout, hub).run(WORKFLOW)
        shutil.copytree(tmp_path / "1" / "caches", tmp_path / "2" / "caches")
        # no site is replaced unless a variable of the repository asks for it
        unasked = {"vars.TRIAGE_PAGES": ""}
        again = runner(checkout, hub, 2, **unasked).run(WORKFLOW)
    assert "pages" not in again
    assert list(jobs) == ["revisions", "shard-1", "shard-2", "merge", "pages"]
    shards, merge = [jobs["shard-1"], jobs["shard-2"]], jobs["merge"]
    # a regression fails the job that joins the shards, and only that
    failed = {name: job.failed for name, job in jobs.items() if job.failed}
    assert failed == {"merge": ["Join the shards"]}
    for count, job in zip((1, 0), shards, strict=True):
        assert job.output("regressed") == job.output("failing") == str(count)
        assert (job.workspace / job.output("json")).is_file()
        assert job.summary.count("1 of 1 case newly fails") == count
    assert "1 of 2 cases newly fails" in merge.summary
    artifacts = tmp_path / "1" / "artifacts"
    night = read_night(artifacts / "nightly")
    assert changes(night) == {
        "small[input=broken]": "regressed",
        "small[input=fine]": "passing",
    }
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
        for name in PROGRAMS:
            own = shutil.which(name, path=job.environment["PATH"])
            assert own == str(job.folder / "bin" / name)
    # the second run finds the first one's nights and results, and opens no issue again
    nights = again["merge"].workspace / "nights"
    store = NightStore(Home(nights))
    pushed = remote.git("ls-tree -r --name-only triage-nights").split()
    stored = [name.rpartition("/")[0] for name in pushed if name.endswith(".json.z")]
    assert stored == [f"{store.path.name}/{number}" for number in store.numbers()]
    assert len(stored) == 2
    assert not [name for name in pushed if "short" in name or ".lock" in name]
    assert read_night(tmp_path / "2" / "artifacts" / "nightly").compiles == 0


def test_nothing_runs_on_a_fork(checkout: Path) -> None:
    fork = {"github.event.repository.fork": "true"}
    assert runner(checkout, LoopbackIssues(), **fork).run(WORKFLOW) == {}


def test_what_is_latest_is_asked_once_for_all_shards(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "recipes" / "small.yaml").unlink()
    write_case(checkout / "recipes", "steady")
    asked = {
        "inputs.toolchain || 'nightly:latest'": "nightly:latest",
        "inputs.baseline || 'latest'": "latest",
    }
    with fake_releases(tmp_path / "releases", count=2, nightlies=2) as releases:
        write_project(checkout, releases)
        served = environment(releases, tmp_path / "home")
        actions = replace(
            runner(checkout, LoopbackIssues(), **asked), environment=served
        )
        [job] = actions.run(WORKFLOW, only="revisions").values()
    given = load(WORKFLOW)["jobs"]["shard"]["steps"][1]["with"]
    latest = {"toolchain": "1.2.0rc20260102", "baseline": "1.1.0"}
    for name, revision in latest.items():
        assert job.values[f"steps.resolve.outputs.{name}"] == revision
        assert given[name].strip("${ }") == f"needs.revisions.outputs.{name}"


RECIPES = ("cuda-matmul-f32.yaml", "llama-attention-aggressive-fusion.yaml")


@pytest.mark.real
def test_packages_of_a_pull_request_are_compared(tmp_path: Path) -> None:
    """Two virtual environments with IREE, which the job made."""
    recipes = tmp_path / "checkout" / "recipes"
    shutil.copytree(ROOT / "recipes" / "models", recipes / "models")
    for name in RECIPES:
        shutil.copy(ROOT / "recipes" / name, recipes)
    uv = Path(sys.executable).with_name("uv")
    for name, version in (("new", "3.3.0"), ("base", "3.2.0")):
        folder = tmp_path / "run" / "compare" / name
        package = ("--python", folder, f"iree-base-compiler=={version}")
        subprocess.run([uv, "venv", "--quiet", folder], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", *package], check=True)
    inputs = {
        "recipes": "\n".join(f"recipes/{name}" for name in RECIPES),
        "toolchain": "path:../new",
        "baseline": "path:../base",
        "options": "--reduce",
        "cache-key": "",
    }
    job = {"steps": [{"uses": "actions/checkout@v7"}, {"uses": OWN, "with": inputs}]}
    workflow = tmp_path / "pull-request.yml"
    workflow.write_text(yaml.safe_dump({"jobs": {"compare": job}}))
    run = Runner(tmp_path / "run", recipes.parent, {"runner.os": "Linux"}, {})
    [done] = run.run(workflow).values()
    assert done.failed == ["Run the nightly"]
    assert (done.output("regressed"), done.output("failing")) == ("1", "1")
    night = read_night(done.workspace / "out")
    assert changes(night) == {
        "cuda-matmul-f32": "known",
        "llama-attention-aggressive-fusion[dtype=f16]": "regressed",
        "llama-attention-aggressive-fusion[dtype=f8]": "passing",
    }
    commits = [str(side.commit)[:10] for side in (night.toolchain, night.baseline)]
    assert commits == ["9f4212cc3a", "f3bef2de12"]
    [cluster] = night.clusters
    readme = done.workspace / "out" / str(cluster.reproducer) / "README.md"
    assert "It passes with local build (f3bef2de12" in readme.read_text()
    assert "rocm: 1 of 2 cases newly fails on path:../new" in done.summary
