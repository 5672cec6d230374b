"""Interpreters of this machine, found by the real uv."""

from __future__ import annotations

import os
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
