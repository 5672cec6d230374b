"""The Python interpreters of this machine, found by uv. They run compilers that are made of Python."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path

from triage.execution.environment import Purpose
from triage.execution.process import capture

Version = tuple[int, int]

# Folders where version managers install interpreters; uv itself searches its own folder and the PATH.
_FOLDERS = {
    "~/.pyenv/versions": "*/bin",
    "~/.asdf/installs/python": "*/bin",
    "~/.local/share/mise/installs/python": "*/bin",
    "~/miniconda3": "bin",
    "~/miniconda3/envs": "*/bin",
    "/opt/python": "*/bin",
    "/opt/homebrew": "bin",
}
_TIMEOUT = 60.0  # seconds; uv runs each interpreter that it finds for the first time


@cache
def interpreter(version: Version) -> Path | None:
    """The interpreter of a version, this program's own where the versions are equal; None where none of that version runs."""
    if version == sys.version_info[:2]:
        return Path(sys.executable)
    answer = _uv_python("find", "--system", "--no-project", "cpython-{}.{}".format(*version))
    return Path(answer.strip()) if answer.strip() else None


@cache
def versions() -> tuple[Version, ...]:
    """The versions of all CPython interpreters, this program's own first, then the newest."""
    own = sys.version_info[:2]
    entries = json.loads(_uv_python("list", "--only-installed", "--output-format", "json") or "[]")
    others = {
        (entry["version_parts"]["major"], entry["version_parts"]["minor"])
        for entry in entries
        if entry["path"] and entry["implementation"] == "cpython" and entry["variant"] == "default"
    }
    return (own, *sorted(others - {own}, reverse=True))


def version_of(text: str) -> Version:
    """`3.11` as numbers."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@cache
def uv_program() -> str:
    """The path of the uv that is installed beside this program."""
    from uv import find_uv_bin

    return find_uv_bin()


def _uv_python(*words: str) -> str:
    """What `uv python WORDS` prints; empty when it fails."""
    folders = [
        str(folder)
        for base, pattern in _FOLDERS.items()
        for folder in sorted(Path(base).expanduser().glob(pattern), reverse=True)
    ]
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *folders))
    command = [uv_program(), "python", *words, "--offline", "--no-config", "--color", "never"]
    answer = capture(command, _TIMEOUT, purpose=Purpose.INSTALL, env={"PATH": path})
    return answer.stdout.text if answer.ok else ""
