"""Which Python runs what, asked of real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.compilers import interpreters


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for function in (interpreters.interpreter, interpreters.versions):
        function.cache_clear()
    yield
    for function in (interpreters.interpreter, interpreters.versions):
        function.cache_clear()


def test_our_own_comes_first() -> None:
    assert interpreters.interpreter(sys.version_info[:2]) == Path(sys.executable)
    assert interpreters.versions()[0] == sys.version_info[:2]


def test_one_is_believed_only_when_it_says_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version manager's stand-in has the name, and fails or is another version."""
    for name, script in {"broken": "exit 127", "other": f'exec "{sys.executable}" "$@"'}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "python3.98").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "python3.98").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, [tmp_path / "broken", tmp_path / "other"])))
    assert interpreters.interpreter((3, 98)) is None
    assert (3, 98) in interpreters.versions()


def test_one_on_the_path_is_found_behind_one_that_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = 'echo "3 98 cpython"'
    for name, script in {"broken": "exit 127", "sound": answer}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "python3.98").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "python3.98").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, [tmp_path / "broken", tmp_path / "sound"])))
    found = interpreters.interpreter((3, 98))
    assert found == tmp_path / "sound/python3.98"
    assert subprocess.run([found], capture_output=True, text=True, check=True).stdout.split()[:2] == ["3", "98"]
