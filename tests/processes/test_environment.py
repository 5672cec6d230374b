"""Which variables reach compilers, generators, installers and builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from triage.model.execution import Limits
from triage.processes.containment import Purpose, environment
from triage.processes.process import run, unlimited
from triage.processes.sealing import Seal

SECRETS = (
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
    "SSH_AUTH_SOCK",
    "PYTHONPATH",
    "SOME_SETTING",
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *SECRETS,
        "UV_INDEX_PASSWORD",
        "CMAKE_GENERATOR",
        "https_proxy",
        "LC_TIME",
    ):
        monkeypatch.setenv(name, "secret")


def test_a_compiler_gets_no_secret(tmp_path: Path) -> None:
    for execution in (
        run(["env"], Limits(timeout=60), tmp_path, seal=Seal(())),
        run(["env"], Limits(timeout=60), tmp_path, seal=None),
        run(["env"], unlimited(60), seal=Seal(())),
    ):
        variables = dict(
            line.split("=", 1) for line in execution.stdout.text.splitlines()
        )
        assert "secret" not in variables.values()
        assert variables["PATH"] == "/usr/bin:/bin"
        assert variables["HOME"] == variables["TMPDIR"] != os.environ["HOME"]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"),
    reason="root may read all unless it drops that right",
)
def test_a_compiler_cannot_read_the_environment_of_the_program(tmp_path: Path) -> None:
    """Nor that of any other process of the program, such as its watchdog."""
    script = """
import os, sys
from pathlib import Path
from triage.processes.process import run
from triage.model.execution import Limits
os.chdir(sys.argv[1])
words = ["sh", "-c", "for pid in $PPID $(cat /proc/$PPID/task/*/children); do tr '\\\\0' '\\\\n' < /proc/$pid/environ; done"]
execution = run(words, Limits(timeout=60), Path(sys.argv[1]), seal=None)
print(execution.stdout.text)
print(execution.stderr.text, file=sys.stderr)
"""
    rights = "-sys_ptrace,-perfmon,-sys_admin"
    started = [
        "setpriv",
        f"--bounding-set={rights}",
        f"--inh-caps={rights}",
        sys.executable,
        "-c",
        script,
        str(tmp_path),
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_TOKEN": "secret"}
    done = subprocess.run(
        started, env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "PATH=" in done.stdout, "the environment of the compiler itself is read"
    assert "GITHUB_TOKEN" not in done.stdout


def test_each_purpose_has_its_variables() -> None:
    names = {
        purpose: {
            name
            for name, value in environment(purpose, {}, Path("/")).items()
            if value == "secret"
        }
        for purpose in Purpose
    }
    assert names == {
        Purpose.COMPILE: set(),
        Purpose.INSTALL: {"LC_TIME", "UV_INDEX_PASSWORD", "https_proxy"},
        Purpose.BUILD: {"LC_TIME", "CMAKE_GENERATOR", "https_proxy"},
        Purpose.GIT: {"LC_TIME", "CMAKE_GENERATOR", "https_proxy", "SSH_AUTH_SOCK"},
    }


def test_named_variables_are_passed_on_or_set() -> None:
    chosen = environment(
        Purpose.COMPILE,
        {"SOME_SETTING": None, "HOME": "/elsewhere", "NOT_SET": None},
        Path("/"),
    )
    assert (chosen["SOME_SETTING"], chosen["HOME"], "NOT_SET" in chosen) == (
        "secret",
        "/elsewhere",
        False,
    )
