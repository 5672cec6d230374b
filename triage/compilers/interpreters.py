"""The Python interpreters of this machine, found by uv. They run compilers that are
made of Python.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path

from triage.processes.containment import Purpose
from triage.processes.process import capture

Version = tuple[int, int]

# Folders where version managers install interpreters; uv itself searches its own folder
# and the PATH.
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


def interpreter(version: Version) -> Path | None:
    """Return the interpreter of a version, if one is there; this program's own where
    the versions are equal.
    """
    if version == sys.version_info[:2]:
        return Path(sys.executable)
    return _others().get(version)


def versions() -> tuple[Version, ...]:
    """Return the versions of all CPython interpreters, this program's own first, then
    the newest.
    """
    own = sys.version_info[:2]
    return (own, *sorted(_others().keys() - {own}, reverse=True))


@cache
def _others() -> dict[Version, Path]:
    folders = [
        str(path)
        for base, pattern in _FOLDERS.items()
        for path in sorted(Path(base).expanduser().glob(pattern))[::-1]
    ]
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *folders))
    command = [
        uv_program(),
        "python",
        "list",
        "--only-installed",
        "--output-format",
        "json",
        "--offline",
        "--no-config",
    ]
    answer = capture(command, _TIMEOUT, purpose=Purpose.INSTALL, env={"PATH": path})
    found: dict[Version, Path] = {}
    for entry in json.loads(answer.stdout.text) if answer.ok else []:
        if (
            entry["path"]
            and entry["implementation"] == "cpython"
            and entry["variant"] == "default"
        ):
            version = entry["version_parts"]["major"], entry["version_parts"]["minor"]
            found.setdefault(version, Path(entry["path"]))
    return found


def version_of(text: str) -> Version:
    """`3.11` as numbers."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@cache
def uv_program() -> str:
    """Return the path of the uv that is installed next to this program."""
    from uv import find_uv_bin

    return find_uv_bin()


def is_script(path: Path) -> bool:
    """Return whether a file names the program that runs it in its first line."""
    with path.open("rb") as source:
        return source.read(2) == b"#!"
