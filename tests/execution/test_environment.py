"""Which variables reach compilers, generators, installers and builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.execution.no_importer import inputs_without_importer
from tests.execution.test_prober import Laboratory, lab
from triage.execution.environment import Purpose, environment
from triage.execution.inputs import Prepared
from triage.execution.process import Worker, capture, run
from triage.model.case import Case, Input, InputKind, Target
from triage.model.execution import Limits

__all__ = ["lab"]

SECRETS = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SSH_AUTH_SOCK", "PYTHONPATH", "SOME_SETTING")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, "UV_INDEX_PASSWORD", "CMAKE_GENERATOR", "https_proxy", "LC_TIME"):
        monkeypatch.setenv(name, "secret")


def test_a_compiler_gets_no_secret(tmp_path: Path) -> None:
    for execution in (run(["env"], Limits(timeout=60), tmp_path), capture(["env"], timeout=60)):
        assert [line for line in execution.stdout.text.splitlines() if line.endswith("=secret")] == ["LC_TIME=secret"]
        assert f"PATH={os.environ['PATH']}" in execution.stdout.text.splitlines()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="root may read all unless it drops that right")
def test_a_compiler_cannot_read_the_environment_of_the_program(tmp_path: Path) -> None:
    """Nor that of any other process of the program, such as its watchdog."""
    script = """
import os, sys
from pathlib import Path
from triage.execution.process import run
from triage.model.execution import Limits
os.chdir(sys.argv[1])
words = ["sh", "-c", "for pid in $PPID $(cat /proc/$PPID/task/*/children); do tr '\\\\0' '\\\\n' < /proc/$pid/environ; done"]
execution = run(words, Limits(timeout=60), Path(sys.argv[1]))
print(execution.stdout.text)
print(execution.stderr.text, file=sys.stderr)
"""
    rights = "-sys_ptrace,-perfmon,-sys_admin"
    started = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", sys.executable, "-c", script, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_TOKEN": "secret"}
    done = subprocess.run(started, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PATH=" in done.stdout, "the environment of the compiler itself is read"
    assert "GITHUB_TOKEN" not in done.stdout


def test_a_worker_gets_no_secret() -> None:
    code = "import os, sys; sys.stdin.buffer.read(8); text = str('GITHUB_TOKEN' in os.environ).encode(); "
    code += "sys.stdout.buffer.write(b'%08x' % len(text) + text); sys.stdout.buffer.flush()"
    with Worker([sys.executable, "-c", code], {}) as worker:
        assert worker.ask(b"", timeout=60, stop=threading.Event()) == b"False"


def test_each_purpose_has_its_variables() -> None:
    names = {purpose: {name for name, value in environment(purpose, {}).items() if value == "secret"} for purpose in Purpose}
    assert names == {
        Purpose.COMPILE: {"LC_TIME"},
        Purpose.INSTALL: {"LC_TIME", "UV_INDEX_PASSWORD", "https_proxy"},
        Purpose.BUILD: {"LC_TIME", "CMAKE_GENERATOR", "https_proxy"},
        Purpose.GIT: {"LC_TIME", "CMAKE_GENERATOR", "https_proxy", "SSH_AUTH_SOCK"},
    }


def test_named_variables_are_passed_on_or_set() -> None:
    chosen = environment(Purpose.COMPILE, {"SOME_SETTING": None, "HOME": "/elsewhere", "NOT_SET": None})
    assert (chosen["SOME_SETTING"], chosen["HOME"], "NOT_SET" in chosen) == ("secret", "/elsewhere", False)


def test_a_generator_gets_only_what_its_recipe_names(tmp_path: Path) -> None:
    script = tmp_path / "generate.py"
    script.write_text("import os; print([os.environ.get(name) for name in ('GITHUB_TOKEN', 'SOME_SETTING', 'N')])")
    inputs = inputs_without_importer(tmp_path)
    plain = Case(
        "r", "r", "", "iree", script, Input(script, InputKind.GENERATOR), Target("llvm-cpu"), limits=Limits(timeout=60)
    )
    texts = []
    for env in ((), (("SOME_SETTING", None),), (("N", "4"),)):
        prepared = inputs.prepare(replace(plain, env=env))
        assert isinstance(prepared, Prepared)
        texts.append(prepared.path.read_text().strip())
    assert texts == ["[None, None, None]", "[None, 'secret', None]", "[None, None, '4']"]


def test_the_values_of_named_variables_are_part_of_the_result(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.plan('env | grep SOME_SETTING >> "$here/values"; echo artifact > "$output"')
    plain = lab.case()

    def probed(case: Case) -> tuple[bool, int]:
        cached = lab.prober.probe(case, lab.toolchain).cached
        return cached, len(lab.runs)

    assert probed(plain) == (False, 1)
    assert probed(replace(plain, env=(("NOT_SET", None),))) == (True, 1)
    passed_on = replace(plain, env=(("SOME_SETTING", None),))
    assert probed(passed_on) == (False, 2)
    assert probed(passed_on) == (True, 2)
    monkeypatch.setenv("SOME_SETTING", "another")
    assert probed(passed_on) == (False, 3)
    assert probed(replace(plain, env=(("SOME_SETTING", "set"),))) == (False, 4)
    assert (lab.folder / "values").read_text().split() == ["SOME_SETTING=secret", "SOME_SETTING=another", "SOME_SETTING=set"]


def test_the_default_limit_of_output_keeps_the_key_of_older_results(lab: Laboratory) -> None:
    lab.plan('echo artifact > "$output"')
    plain = lab.case()
    lab.prober.probe(plain, lab.toolchain)
    other = replace(plain, limits=replace(plain.limits, output=1 << 30))
    assert not lab.prober.probe(other, lab.toolchain).cached
    record = lab.evidence.find(lab.prober._task(plain, lab.toolchain).key())
    from triage.execution.cache import key_of

    digest = lab.prober.input_of(plain)
    assert isinstance(digest, Prepared)
    assert record is not None
    assert record.key == key_of("identity", digest.digest, (), (60.0, 8 << 30))
