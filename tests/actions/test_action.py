"""The action and the example workflow: valid, and their shell steps do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema.validators import validator_for

from tests.actions.runner import ACTION, OWN, WORKFLOW, load
from tests.conftest import ROOT
from tests.programs import write_program
from triage.cli.app import every_command


def shell_steps() -> list[str]:
    jobs = [load(ACTION)["runs"], *load(WORKFLOW)["jobs"].values()]
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize(
    ("path", "kind"), [(ACTION, "actions"), (WORKFLOW, "workflows")]
)
def test_a_file_follows_the_schema_of_github(path: Path, kind: str) -> None:
    schema = get_builtin_schema(f"vendor.github-{kind}")
    document = load(path)
    if True in document:  # YAML 1.1 reads `on` as true
        document["on"] = document.pop(True)
    validator_for(schema)(schema).validate(document)


def test_shell_steps_call_commands_and_options_that_exist() -> None:
    options = {
        " ".join(words): {option for param in command.params for option in param.opts}
        for words, command in every_command()
    }
    calls = re.findall(r"(?m)^ *(?:\{ )?triage ([^|<>\n]*)", "\n".join(shell_steps()))
    assert len(calls) == 6
    for call in calls:
        first, second, *rest = shlex.split(call)
        name = first if first in options else f"{first} {second}"
        used = {word for word in (second, *rest) if re.match("--[a-z]", word)}
        assert used <= options[name], call


def test_every_action_is_pinned_with_its_version_next_to_it() -> None:
    """A tag can be moved to other code."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ACTION, WORKFLOW]
    text = "\n".join(path.read_text() for path in pages)
    used = {*re.findall(r"(?m)^[ -]*uses: (.*)", text)} - {OWN}
    assert len(used) > 5
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


def test_no_shell_step_contains_an_expression() -> None:
    """A branch, a label or an input with shell commands in its name would run them."""
    assert [script for script in shell_steps() if "${{" in script] == []


GIVEN = {
    "RECIPES": "one $x.yaml\n\n-two\n",
    "TOOLCHAIN": "a b",
    "BASELINE": "c",
    "OUT": "out",
    "OPTIONS": "--bisect\n\n  -j 2\n--reduce",
}
WORDS = """nightly|--toolchain|a b|--baseline|c|--out|out|--github|--bisect|-j|2|--reduce
--|one $x.yaml|-two"""


@pytest.mark.parametrize(
    ("ended", "fail", "code"),
    [(0, "true", 0), (1, "true", 1), (1, "false", 0), (4, "false", 4)],
)
def test_the_action_passes_recipes_and_codes_on(
    tmp_path: Path, ended: int, fail: str, code: int
) -> None:
    script = (
        f'printf "%s\\n" "$@" > "$0.words"\necho no such toolchain >&2\nexit {ended}'
    )
    write_program(tmp_path / "triage", f"#!/bin/sh\n{script}\n")
    steps = load(ACTION)["runs"]["steps"]
    [step] = [step for step in steps if step.get("id") == "nightly"]
    assert {*GIVEN, "FAIL"} == set(step["env"])
    summary = tmp_path / "summary"
    environment = {
        **GIVEN,
        "FAIL": fail,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    words = ["bash", "-eo", "pipefail", "-c", step["run"]]
    assert subprocess.run(words, env=environment).returncode == code
    assert summary.exists() == (ended == 4)
    if ended == 4:
        assert "exit code 4:\n\n    no such toolchain\n" in summary.read_text()
    passed = (tmp_path / "triage.words").read_text().splitlines()
    assert passed == re.split(r"[|\n]", WORDS)
