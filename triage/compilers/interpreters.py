"""Find the Python interpreters of this machine with uv. They run compilers that are
written in Python.
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

# Where version managers install interpreters: folder -> pattern of the folders in it.
# uv itself searches its own folder and the PATH.
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
    """Return an interpreter of a version, if one is installed. This program's own is
    preferred.
    """
    if version == sys.version_info[:2]:
        return Path(sys.executable)
    return _interpreters_by_version().get(version)


def versions() -> tuple[Version, ...]:
    """Return the versions of all CPython interpreters, this program's own first, then
    the newest.
    """
    own = sys.version_info[:2]
    return (own, *sorted(_interpreters_by_version().keys() - {own}, reverse=True))


@cache
def _interpreters_by_version() -> dict[Version, Path]:
    path = [os.environ.get("PATH", os.defpath)]
    for base, pattern in _FOLDERS.items():
        path += map(str, sorted(Path(base).expanduser().glob(pattern), reverse=True))
    options = "--only-installed --output-format json --offline --no-config"
    answer = capture(
        [uv_program(), "python", "list", *options.split()],
        _TIMEOUT,
        purpose=Purpose.INSTALL,
        env={"PATH": os.pathsep.join(path)},
    )
    if not answer.ok:
        return {}
    found: dict[Version, Path] = {}
    for entry in json.loads(answer.stdout.text):
        kind = entry["implementation"], entry["variant"]
        if entry["path"] and kind == ("cpython", "default"):
            version = version_of(entry["version"])
            found.setdefault(version, Path(entry["path"]))
    return found


def version_of(text: str) -> Version:
    """Return the first two numbers of a version: `(3, 11)` for `3.11.4`."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@cache
def uv_program() -> str:
    """Return the path of the uv that is installed next to this program."""
    from uv import find_uv_bin

    return find_uv_bin()


def is_script(path: Path) -> bool:
    """Return whether a file begins with `#!` and the program that runs it."""
    with path.open("rb") as source:
        return source.read(2) == b"#!"
