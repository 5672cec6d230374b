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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.programs import write_program

OWN = "OWNER/triage@v1"
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
# `python -m venv` and pip would install triage again in each job: the environment is
# that of this test, and pip notes what it is asked for.
PYTHON = f"""#!/bin/sh
case "$2" in
  venv) mkdir -p "$3/bin" && ln -s "$0" "$3/bin/python"
    ln -s "{Path(sys.executable).parent}/triage" "$3/bin/triage" ;;
  pip) for word; do last=$word; done; echo "$last" >> "$RUNNER_TEMP/installed" ;;
esac
"""


@dataclass
class Job:
    """A job on a machine of its own."""

    folder: Path
    values: dict[str, str]
    """The expressions that the workflow may use."""
    environment: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    """Of the steps of the action."""
    failed: list[str] = field(default_factory=list)
    """The steps that failed."""

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def summary(self) -> str:
        return Path(self.environment["GITHUB_STEP_SUMMARY"]).read_text()

    def text(self, value: object) -> str:
        """Substitute the expressions of a value; an unknown one is a KeyError."""
        known = self.values | {
            f"env.{name}": text for name, text in self.environment.items()
        }
        return re.sub(r"\$\{\{ *(.*?) *\}\}", lambda match: known[match[1]], str(value))


@dataclass(frozen=True)
class Runner:
    """Runs the jobs of a workflow on this machine."""

    root: Path
    checkout: Path
    """The repository of the workflow."""
    action: Path
    """The folder of the action `OWN`."""
    values: Mapping[str, str]
    environment: Mapping[str, str]

    def run(self, workflow: Path, only: str = "") -> dict[str, Job]:
        """Run each job that is due, once for each entry of its matrix, and return them
        by name. only: this job (default: all).
        """
        jobs, values = dict[str, Job](), {**self.values}
        for key, document in yaml.safe_load(workflow.read_text())["jobs"].items():
            condition, needed = document.get("if", ""), document.get("needs")
            succeeded = values.get(f"needs.{needed}.result", "success") == "success"
            values[f"needs.{key}.result"] = "skipped"
            is_due = (succeeded or "always()" in condition) and only in ("", key)
            if not (is_due and holds(condition, values)):
                continue
            values[f"needs.{key}.result"] = "success"
            for name, of_matrix in _variants(key, document):
                jobs[name] = job = self._job(name, document, {**values, **of_matrix})
                for output, text in document.get("outputs", {}).items():
                    values[f"needs.{key}.outputs.{output}"] = job.text(text)
                if job.failed:
                    values[f"needs.{key}.result"] = "failure"
        return jobs

    def _job(self, name: str, document: dict[str, Any], values: dict[str, str]) -> Job:
        folder = self.root / name
        job = Job(folder, values, dict(self.environment))
        for part in ("workspace", "home", "temp", "files"):
            (folder / part).mkdir(parents=True)
        for name in ("python", "pip", "iree-compile"):
            write_program(folder / "bin" / name, "#!/bin/sh\necho own\n")
        job.environment |= {
            "HOME": str(folder / "home"),
            "PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_WORKSPACE": str(job.workspace),
            "GITHUB_ACTION_PATH": str(self.action),
            **{name: str(folder / "files" / name) for name in FILES},
            **document.get("env", {}),
        }
        for file in FILES:
            (folder / "files" / file).touch()
        for step in document["steps"]:
            self._step(job, step)
        return job

    def _step(self, job: Job, step: dict[str, Any]) -> None:
        condition = step.get("if", "")
        if job.failed and "always()" not in condition:
            return
        if not holds(condition, job.values):
            return
        if "run" in step:
            self._shell(job, step)
        elif step["uses"] == OWN:
            self._own(job, step["with"])
        else:
            given = {
                name: job.text(text) for name, text in step.get("with", {}).items()
            }
            action = step["uses"].partition("@")[0]
            if action == "actions/setup-python":
                # with `update-environment: false`, it is not on the PATH
                python = write_program(job.folder / "python" / "python", PYTHON)
                job.values[f"steps.{step['id']}.outputs.python-path"] = str(python)
            else:
                self._foreign(job, action, given)

    def _own(self, job: Job, given: dict[str, Any]) -> None:
        """Run the steps of the action, with its inputs and their defaults."""
        document = yaml.safe_load((self.action / "action.yml").read_text())
        for name, entry in document["inputs"].items():
            text = given.get(name, entry.get("default", ""))
            job.values[f"inputs.{name}"] = job.text(text)
        for step in document["runs"]["steps"]:
            self._step(job, step)
        for name in document["outputs"]:
            job.outputs[name] = job.values.get(f"steps.nightly.outputs.{name}", "")

    def _shell(self, job: Job, step: dict[str, Any]) -> None:
        own = {name: job.text(text) for name, text in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=job.workspace,
            env=job.environment | own,
            check=False,
        )
        if done.returncode:
            job.failed.append(step.get("name", step["run"]))
        for line in Path(job.environment["GITHUB_PATH"]).read_text().splitlines():
            job.environment["PATH"] = f"{line}{os.pathsep}{job.environment['PATH']}"
        variables = Path(job.environment["GITHUB_ENV"]).read_text().splitlines()
        job.environment |= dict(line.split("=", 1) for line in variables)
        output = Path(job.environment["GITHUB_OUTPUT"]).read_text()
        values = re.findall(r"(\w+)<<(\S+)\n(.*?)\n\2\n", output, re.S)
        pairs = [(name, value) for name, _, value in values]
        for name, value in pairs or re.findall(r"(?m)^(\w+)=(.*)$", output):
            job.values[f"steps.{step.get('id')}.outputs.{name}"] = value
        for file in ("GITHUB_PATH", "GITHUB_ENV", "GITHUB_OUTPUT"):
            Path(job.environment[file]).write_text("")

    def _foreign(self, job: Job, action: str, given: dict[str, str]) -> None:
        """Do what an action of GitHub does with files."""
        place = job.workspace / given.get("path", ".")
        match action:
            case "actions/checkout":
                shutil.copytree(self.checkout, job.workspace, dirs_exist_ok=True)
            case "actions/upload-artifact":
                shutil.copytree(place, self.root / "artifacts" / given["name"])
            case "actions/upload-pages-artifact":
                shutil.copytree(place, self.root / "artifacts" / "github-pages")
            case "actions/download-artifact":
                for artifact in (self.root / "artifacts").glob(given["pattern"]):
                    shutil.copytree(artifact, place / artifact.name)
            case "actions/cache/save":
                shutil.copytree(place, self.root / "caches" / given["key"])
            case "actions/cache/restore":
                caches = (self.root / "caches").glob(f"{given['restore-keys']}*")
                for cache in sorted(caches, key=lambda path: path.stat().st_mtime)[-1:]:
                    shutil.copytree(cache, place, dirs_exist_ok=True)
            case _:
                assert action == "actions/deploy-pages", action


def holds(condition: str, values: Mapping[str, str]) -> bool:
    """Evaluate a condition of `always()`, negations and comparisons with texts."""
    for term in map(str.strip, condition.strip("${ }").split("&&")):
        if term in ("", "always()"):
            continue
        match = re.fullmatch(r"!(\S+)|(\S+) (==|!=) '(.*)'", term)
        assert match, term
        is_true = match[1] and not values[match[1]]
        if match[3]:
            is_true = (values[match[2]] == match[4]) is (match[3] == "==")
        if not is_true:
            return False
    return True


def _variants(key: str, job: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    matrix = job.get("strategy", {}).get("matrix", {})
    if not matrix:
        yield key, {}
    for name, entries in matrix.items():
        for entry in entries:
            values = {f"matrix.{name}": str(entry)}
            values["strategy.job-total"] = str(len(entries))
            yield f"{key}-{entry}", values
