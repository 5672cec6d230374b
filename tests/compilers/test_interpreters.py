"""Interpreters of this machine, found by the real uv."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.compilers import interpreters

OWN = sys.version_info[:2]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for function in (interpreters.interpreter, interpreters.versions):
        function.cache_clear()
    yield
    for function in (interpreters.interpreter, interpreters.versions):
        function.cache_clear()


def test_our_own_comes_first() -> None:
    assert interpreters.interpreter(OWN) == Path(sys.executable)
    assert interpreters.versions()[0] == OWN


def test_each_interpreter_has_the_version_that_it_is_listed_with() -> None:
    question = "import sys; print(*sys.version_info[:2], sys.implementation.name)"
    for version in interpreters.versions():
        program = interpreters.interpreter(version)
        assert program is not None
        answer = subprocess.run([program, "-c", question], capture_output=True, text=True, check=True)
        assert answer.stdout.split() == [*map(str, version), "cpython"]


def test_a_broken_interpreter_and_one_of_another_version_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shims of a version manager have the name of a version, but fail or run another one."""
    for name, script in {"broken": "exit 127", "other": f'exec "{sys.executable}" "$@"'}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "python3.98").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "python3.98").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, [tmp_path / "broken", tmp_path / "other"])))
    assert interpreters.interpreter((3, 98)) is None
    assert (3, 98) not in interpreters.versions()


def test_folders_of_version_managers_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".pyenv" / "versions" / "own" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3").symlink_to(sys.executable)
    seen = []
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(interpreters, "capture", lambda command, timeout, purpose, env: seen.append(env["PATH"]) or EMPTY)
    interpreters.versions()
    assert str(folder) in seen[0].split(os.pathsep)


class EMPTY:
    ok = False
