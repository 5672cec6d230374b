"""The action and the example workflow: valid, and their shell steps do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.programs import write_program
from triage.cli.app import every_command

NIGHTLY = ROOT / "docs" / "examples" / "nightly.yml"
ACTION = ROOT / "action.yml"


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def shell_steps(document: dict[str, Any]) -> Iterator[str]:
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    yield from (step["run"] for job in jobs for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("path", [ACTION, NIGHTLY], ids=lambda path: path.name)
def test_a_file_follows_the_schema_of_github(path: Path) -> None:
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema.validators import validator_for

    schema = get_builtin_schema(
        "vendor.github-actions" if path == ACTION else "vendor.github-workflows"
    )
    # YAML 1.1 reads `on` as true
    document = {
        "on" if key is True else key: value for key, value in load(path).items()
    }
    errors = [
        f"{error.json_path}: {error.message}"
        for error in validator_for(schema)(schema).iter_errors(document)
    ]
    assert errors == []


@pytest.mark.parametrize("path", [ACTION, NIGHTLY], ids=lambda path: path.name)
def test_shell_steps_call_commands_and_options_that_exist(path: Path) -> None:
    commands = {" ".join(words): command for words, command in every_command()}
    called = [
        shlex.split(call.partition("||")[0])
        for script in shell_steps(load(path))
        for call in re.findall(r"(?m)^\s*triage (.*)", script)
    ]
    assert called
    for words in called:
        name = " ".join(words[:2]) if " ".join(words[:2]) in commands else words[0]
        known = {option for param in commands[name].params for option in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_every_action_is_pinned_with_its_version_next_to_it() -> None:
    """A tag can be moved to other code."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    used = [
        (path.name, line.partition("uses:")[2].strip())
        for path in (ACTION, NIGHTLY, *pages)
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses: ", line)
    ]
    assert used
    pinned = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [
        entry
        for entry in used
        if not pinned.fullmatch(entry[1]) and entry[1] != "OWNER/triage@v1"
    ] == []


@pytest.mark.parametrize("path", [ACTION, NIGHTLY], ids=lambda path: path.name)
def test_no_shell_step_contains_an_expression(path: Path) -> None:
    """A branch, a label or an input with shell commands in its name would run them."""
    assert [script for script in shell_steps(load(path)) if "${{" in script] == []


@pytest.mark.parametrize(
    ("ended", "fail", "code"),
    [(0, "true", 0), (1, "true", 1), (1, "false", 0), (4, "false", 4)],
)
def test_the_action_passes_recipes_and_codes_on(
    tmp_path: Path, ended: int, fail: str, code: int
) -> None:
    program = write_program(
        tmp_path / "triage",
        '#!/bin/sh\nprintf "%s\\n" "$@" > "$0.words"\n'
        f"echo no such toolchain >&2\nexit {ended}\n",
    )
    [step] = [
        step for step in load(ACTION)["runs"]["steps"] if step.get("id") == "nightly"
    ]
    given = {
        "RECIPES": "one $x.yaml\n\n-two\n",
        "TOOLCHAIN": "a b",
        "BASELINE": "c",
        "OUT": "out",
        "OPTIONS": "--bisect\n\n  -j 2\n--reduce",
        "FAIL": fail,
    }
    assert set(given) == set(step["env"])
    summary = tmp_path / "summary"
    environment = given | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]], env=environment, check=False
    )
    assert done.returncode == code
    assert summary.exists() == (ended == 4)
    if ended == 4:
        assert "exit code 4:\n\n    no such toolchain\n" in summary.read_text()
    words = ["nightly", "--toolchain", "a b", "--baseline", "c", "--out", "out"]
    words += [
        "--github",
        "--bisect",
        "-j",
        "2",
        "--reduce",
        "--",
        "one $x.yaml",
        "-two",
    ]
    assert Path(f"{program}.words").read_text().splitlines() == words
