"""Run the steps of a workflow as GitHub Actions does: shell steps in bash, this repository's action, stubs for `actions/*`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
_NAME = re.compile(r"'[^']*'|(?<![\w.])(?:inputs|matrix|runner|github|env|secrets|steps|needs)(?:\.[\w-]+)+")


def load(path: Path) -> dict[str, Any]:
    """Read a workflow or an action."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


@dataclass
class StepResult:
    """What a step did. code: of its shell, 0 where it has none; uses: the action; values: its inputs."""

    name: str
    code: int = 0
    output: str = ""
    uses: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Machine:
    """A runner for one job. workspace: the checkout; artifacts: those of the workflow; context: values of expressions."""

    workspace: Path
    temp: Path
    artifacts: Path
    environment: dict[str, str]
    context: dict[str, str]
    results: list[StepResult] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(result.code for result in self.results)

    def run(self, steps: list[dict[str, Any]]) -> None:
        """Run steps in order; after one that failed, only those with `always()`."""
        for step in steps:
            if self._is_due(str(step.get("if", "success()"))):
                self._step(step)

    def value(self, text: object) -> str:
        """Replace the expressions in a text. KeyError for a name that the test does not know."""
        return _EXPRESSION.sub(lambda match: self.context[match[1]], _plain(text))

    def _is_due(self, condition: str) -> bool:
        if "always()" not in condition:
            condition = f"success() && ({condition})"
        source = _NAME.sub(lambda match: repr(match[0][1:-1] if match[0][0] == "'" else self.context[match[0]]), condition)
        for word, meaning in (("&&", " and "), ("||", " or "), ("success()", str(not self.failed)), ("always()", "True")):
            source = source.replace(word, meaning)
        return bool(eval(source, {"__builtins__": {}}))

    def _step(self, step: dict[str, Any]) -> None:
        values = {name: self.value(text) for name, text in step.get("with", {}).items()}
        if "run" in step:
            return self._shell(step)
        self.results.append(StepResult(step.get("name", step["uses"]), uses=step["uses"].partition("@")[0], values=values))
        match self.results[-1].uses:
            case "actions/upload-artifact":
                shutil.copytree(self.workspace / values["path"], self.artifacts / values["name"])
            case "actions/download-artifact":
                for artifact in self.artifacts.glob(values["pattern"]):
                    shutil.copytree(artifact, self.workspace / values["path"] / artifact.name)
            case "actions/upload-pages-artifact":
                assert (self.workspace / values["path"] / "index.html").is_file()
            case "OWNER/triage":
                self._action(values)
        return None

    def _action(self, values: Mapping[str, str]) -> None:
        action = load(ROOT / "action.yml")
        assert set(values) <= set(action["inputs"])
        inputs = {name: values.get(name, entry["default"]) for name, entry in action["inputs"].items()}
        outer = dict(self.context)
        self.context |= {f"inputs.{name}": value for name, value in inputs.items()}
        self.environment["GITHUB_ACTION_PATH"] = str(ROOT)
        self.run(action["runs"]["steps"])
        outputs = {name: self.context.get(_plain(entry["value"])[4:-3], "") for name, entry in action["outputs"].items()}
        variables = {name: value for name, value in self.context.items() if name.startswith("env.")}
        self.context = outer | variables | {f"outputs.{name}": value for name, value in outputs.items()}

    def _shell(self, step: dict[str, Any]) -> None:
        files = {name: self.temp / f"{name}-{uuid.uuid4().hex}" for name in ("OUTPUT", "ENV", "PATH", "STEP_SUMMARY")}
        for path in files.values():
            path.touch()
        environment = self.environment | {f"GITHUB_{name}": str(path) for name, path in files.items()}
        environment |= {name: self.value(text) for name, text in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.value(step["run"])]
        done = subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, text=True, check=False)
        self.results.append(StepResult(step.get("name", ""), done.returncode, done.stdout + done.stderr))
        for line in files["ENV"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.environment[name] = self.context[f"env.{name}"] = value
        for folder in files["PATH"].read_text().splitlines():
            self.environment["PATH"] = f"{folder}{os.pathsep}{self.environment['PATH']}"
        blocks = re.findall(r"^([\w-]+)<<(.+)\n(.*?)\n\2$", files["OUTPUT"].read_text(), re.MULTILINE | re.DOTALL)
        self.context |= {f"steps.{step.get('id', '')}.outputs.{name}": value for name, _, value in blocks}


def _plain(text: object) -> str:
    return str(text).lower() if isinstance(text, bool) else str(text)
