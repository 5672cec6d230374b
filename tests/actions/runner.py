"""A runner of GitHub Actions for one workflow: its jobs in order, each with folders of
its own, its shell steps by bash, with the files of a real runner.

The actions of others that the workflow uses are played by a few lines each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT
from tests.programs import write_program

ACTION = ROOT / "action.yml"
WORKFLOW = ROOT / "docs" / "examples" / "nightly.yml"
OWN = "OWNER/triage@v1"
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
PROGRAMS = ("python", "pip", "iree-compile")
# `python -m venv` and pip would install triage again in each job: the environment is
# that of this test, and pip notes what it is asked for.
PYTHON = f"""#!/bin/sh
case "$2" in
  venv) mkdir -p "$3/bin" && ln -s "$0" "$3/bin/python"
    ln -s "{Path(sys.executable).parent}/triage" "$3/bin/triage" ;;
  pip) for word; do last=$word; done; echo "$last" >> "$RUNNER_TEMP/installed" ;;
esac
"""
copy = partial(shutil.copytree, dirs_exist_ok=True)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@dataclass
class Job:
    """A job on a machine of its own."""

    folder: Path
    values: dict[str, str]
    """The expressions that the workflow may use."""
    environment: dict[str, str]
    failed: list[str] = field(default_factory=list)
    """The steps that failed."""

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def summary(self) -> str:
        return self.file("GITHUB_STEP_SUMMARY").read_text()

    def file(self, name: str) -> Path:
        return Path(self.environment[name])

    def output(self, name: str) -> str:
        """Return an output of the action."""
        return self.values[f"steps.nightly.outputs.{name}"]

    def text(self, value: object) -> str:
        """Substitute the expressions of a value; an unknown one is a KeyError."""
        known = {f"env.{name}": text for name, text in self.environment.items()}
        known |= self.values
        return re.sub(r"\$\{\{ *(.*?) *\}\}", lambda match: known[match[1]], str(value))

    def texts(self, values: Mapping[str, object]) -> dict[str, str]:
        return {name: self.text(value) for name, value in values.items()}


@dataclass(frozen=True)
class Runner:
    """Runs the jobs of a workflow on this machine."""

    root: Path
    checkout: Path
    """The repository of the workflow."""
    values: Mapping[str, str]
    environment: Mapping[str, str]

    def run(self, workflow: Path, only: str = "") -> dict[str, Job]:
        """Run each job that is due, once for each entry of its matrix, and return them
        by name. only: this job (default: all).
        """
        jobs, values = dict[str, Job](), {**self.values}
        for key, document in load(workflow)["jobs"].items():
            condition, needed = document.get("if", ""), document.get("needs")
            succeeded = values.get(f"needs.{needed}.result", "success") == "success"
            is_due = (succeeded or "always()" in condition) and only in ("", key)
            if not (is_due and holds(condition, values)):
                values[f"needs.{key}.result"] = "skipped"
                continue
            values[f"needs.{key}.result"] = "success"
            shards = document.get("strategy", {}).get("matrix", {}).get("shard", [""])
            for shard in map(str, shards):
                name = f"{key}-{shard}".rstrip("-")
                total = str(len(shards))
                given = {"matrix.shard": shard, "strategy.job-total": total}
                jobs[name] = job = self._job(name, document, values | given)
                for output, text in job.texts(document.get("outputs", {})).items():
                    values[f"needs.{key}.outputs.{output}"] = text
                if job.failed:
                    values[f"needs.{key}.result"] = "failure"
        return jobs

    def _job(self, name: str, document: dict[str, Any], values: dict[str, str]) -> Job:
        folder = self.root / name
        for part in ("workspace", "home", "temp", "files"):
            (folder / part).mkdir(parents=True)
        for program in PROGRAMS:
            write_program(folder / "bin" / program, "#!/bin/sh\necho own\n")
        files = {name: folder / "files" / name for name in FILES}
        for file in files.values():
            file.touch()
        environment = {
            "HOME": folder / "home",
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "RUNNER_TEMP": folder / "temp",
            "GITHUB_WORKSPACE": folder / "workspace",
            "GITHUB_ACTION_PATH": ROOT,
            **files,
        }
        own = {name: str(value) for name, value in environment.items()}
        own = {**self.environment, **own, **document.get("env", {})}
        job = Job(folder, values, own)
        for step in document["steps"]:
            self._step(job, step)
        return job

    def _step(self, job: Job, step: dict[str, Any]) -> None:
        condition = step.get("if", "")
        is_due = not job.failed or "always()" in condition
        if not is_due or not holds(condition, job.values):
            return
        if "run" in step:
            self._shell(job, step)
        elif step["uses"] == OWN:
            document = load(ACTION)
            inputs = document["inputs"].items()
            given = {name: entry.get("default", "") for name, entry in inputs}
            for name, text in job.texts(given | step["with"]).items():
                job.values[f"inputs.{name}"] = text
            for own in document["runs"]["steps"]:
                self._step(job, own)
        else:
            action = step["uses"].partition("@")[0]
            self._foreign(job, action, step, job.texts(step.get("with", {})))

    def _shell(self, job: Job, step: dict[str, Any]) -> None:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=job.workspace,
            env=job.environment | job.texts(step.get("env", {})),
        )
        if done.returncode:
            job.failed.append(step["name"])
        for line in job.file("GITHUB_PATH").read_text().splitlines():
            job.environment["PATH"] = f"{line}{os.pathsep}{job.environment['PATH']}"
        variables = job.file("GITHUB_ENV").read_text().splitlines()
        job.environment |= dict(line.split("=", 1) for line in variables)
        output = job.file("GITHUB_OUTPUT").read_text()
        longer = re.findall(r"(\w+)<<(\S+)\n(.*?)\n\2\n", output, re.S)
        for name, _, value in longer or re.findall(r"(?m)^(\w+)(=)(.*)$", output):
            job.values[f"steps.{step.get('id')}.outputs.{name}"] = value
        for file in FILES[:3]:
            job.file(file).write_text("")

    def _foreign(
        self, job: Job, action: str, step: dict[str, Any], given: dict[str, str]
    ) -> None:
        """Do what an action of GitHub does with files."""
        place = job.workspace / given.get("path", ".")
        artifacts, caches = self.root / "artifacts", self.root / "caches"
        match action.removeprefix("actions/"):
            case "setup-python":
                # with `update-environment: false`, it is not on the PATH
                python = write_program(job.folder / "python" / "python", PYTHON)
                job.values[f"steps.{step['id']}.outputs.python-path"] = str(python)
            case "checkout":
                copy(self.checkout, job.workspace)
            case "upload-artifact" | "upload-pages-artifact":
                copy(place, artifacts / given.get("name", "github-pages"))
            case "download-artifact":
                for artifact in artifacts.glob(given["pattern"]):
                    copy(artifact, place / artifact.name)
            case "cache/save":
                copy(place, caches / given["key"])
            case "cache/restore":
                saved = caches.glob(f"{given['restore-keys']}*")
                for cache in sorted(saved, key=os.path.getmtime)[-1:]:
                    copy(cache, place)
            case _:
                assert action == "actions/deploy-pages", action


def holds(condition: str, values: Mapping[str, str]) -> bool:
    """Evaluate a condition of `always()`, negations and comparisons with texts."""
    text = condition.strip("${ }").replace("always()", "True").replace("&&", "and")
    text = re.sub(r"!(?!=)", "not ", text)
    text = re.sub(r"\w+\.[\w.-]+", lambda match: repr(values[match[0]]), text)
    return bool(eval(text or "True"))
