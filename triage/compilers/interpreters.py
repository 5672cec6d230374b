"""The Python interpreters of this machine: those that run a compiler which is made of Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from triage.execution.process import capture

Version = tuple[int, int]

_NAME = re.compile(r"python(\d)\.(\d+)$")
# Beside the search path: where version managers and uv keep what they installed.
_KEPT = (
    "~/.pyenv/versions/*/bin",
    "~/.local/share/uv/python/*/bin",
    "~/.asdf/installs/python/*/bin",
    "~/.local/share/mise/installs/python/*/bin",
    "~/miniconda3/bin",
    "~/miniconda3/envs/*/bin",
    "/opt/python/*/bin",
    "/opt/homebrew/bin",
)
_PATIENCE = 10.0  # seconds that one may take to say its version


@cache
def interpreter(version: Version) -> Path | None:
    """The interpreter of a version, this program's own where it is the one; None where none of that version runs."""
    if version == sys.version_info[:2]:
        return Path(sys.executable)
    return next((path for path in _named(version) if _runs(path, version)), None)


@cache
def versions() -> tuple[Version, ...]:
    """The versions there are interpreters of, this program's own first, then the newest. Those found by name are not
    run for it: a version whose interpreter turns out broken costs a wheel, no verdict.
    """
    ours = sys.version_info[:2]
    others = {(int(found[1]), int(found[2])) for path in _all() if (found := _NAME.search(path.name))}
    return (ours, *sorted(others - {ours}, reverse=True))


def version_of(text: str) -> Version:
    """`3.11` as numbers."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _folders() -> Iterator[Path]:
    for name in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(name)
    for pattern in _KEPT:
        root, _, rest = pattern.partition("*")
        if not rest:
            yield Path(pattern).expanduser()
        else:
            yield from sorted(Path(root).expanduser().glob(f"*{rest}"), reverse=True)


def _all() -> Iterator[Path]:
    for folder in _folders():
        yield from sorted(folder.glob("python[0-9].[0-9]*"))


def _named(version: Version) -> Iterator[Path]:
    name = "python{}.{}".format(*version)
    for folder in _folders():
        if (path := folder / name).is_file():
            yield path


def _runs(path: Path, version: Version) -> bool:
    """Whether it is what its name says. A version manager's stand-in exists for versions that it does not switch to."""
    question = "import sys; print(*sys.version_info[:2], sys.implementation.name)"
    answer = capture([str(path), "-I", "-S", "-c", question], _PATIENCE)
    return answer.stdout.text.split() == [*map(str, version), "cpython"]
