"""Which variables reach compilers, generators, installers and builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.processes.conftest import ran
from triage.processes.containment import Purpose, environment
from triage.processes.sealing import Seal

SECRETS = """\
GITHUB_TOKEN AWS_SECRET_ACCESS_KEY HF_TOKEN SSH_AUTH_SOCK PYTHONPATH SOME_SETTING
UV_INDEX_PASSWORD CMAKE_GENERATOR https_proxy LC_TIME"""
#: Those that each purpose gets.
PASSED_ON = {
    Purpose.COMPILE: "",
    Purpose.INSTALL: "LC_TIME UV_INDEX_PASSWORD https_proxy",
    Purpose.BUILD: "CMAKE_GENERATOR LC_TIME https_proxy",
    Purpose.GIT: "CMAKE_GENERATOR LC_TIME SSH_AUTH_SOCK https_proxy",
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS.split():
        monkeypatch.setenv(name, "secret")


@pytest.mark.parametrize("seal", [Seal(()), None])
def test_a_compiler_gets_no_secret(tmp_path: Path, seal: Seal | None) -> None:
    lines = ran(["env"], tmp_path, seal).stdout.text.splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert "secret" not in variables.values()
    assert variables["PATH"] == "/usr/bin:/bin"
    assert variables["HOME"] == variables["TMPDIR"] == str(tmp_path)


READS_OTHERS = """
import sys
from pathlib import Path
from tests.processes.conftest import ran
script = r"for pid in $PPID $(cat /proc/$PPID/task/*/children); do tr '\\0' '\\n' < /proc/$pid/environ; done"
execution = ran(["sh", "-c", script], Path(sys.argv[1]))
print(execution.stdout.text)
print(execution.stderr.text, file=sys.stderr)
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"),
    reason="root may read all unless it drops that right",
)
def test_a_compiler_cannot_read_the_environment_of_the_program(tmp_path: Path) -> None:
    """Nor that of any other process of the program, such as its watchdog."""
    rights = "-sys_ptrace,-perfmon,-sys_admin"
    drops = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    done = subprocess.run(
        [*drops, sys.executable, "-c", READS_OTHERS, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "PATH=" in done.stdout, "the environment of the compiler itself is read"
    assert "GITHUB_TOKEN" not in done.stdout


@pytest.mark.parametrize("purpose", Purpose)
def test_each_purpose_has_its_variables(purpose: Purpose) -> None:
    variables = environment(purpose, {}, Path("/"))
    names = [name for name, value in variables.items() if value == "secret"]
    assert " ".join(sorted(names)) == PASSED_ON[purpose]


def test_named_variables_are_passed_on_or_set() -> None:
    named = {"SOME_SETTING": None, "HOME": "/elsewhere", "NOT_SET": None}
    chosen = environment(Purpose.COMPILE, named, Path("/"))
    assert chosen["SOME_SETTING"] == "secret"
    assert chosen["HOME"] == "/elsewhere"
    assert "NOT_SET" not in chosen
