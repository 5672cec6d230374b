"""Find the Python interpreters of this machine with uv. They run compilers that are
written in Python.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from triage.processes.containment import Purpose
from triage.processes.process import run, unlimited

Version = tuple[int, int]

_TIMEOUT = 60.0  # seconds; uv runs each interpreter that it finds for the first time


def interpreter(version: Version) -> Path | None:
    """Return an interpreter of a version, if one is installed. This program's own is
    preferred.
    """
    return _interpreters_by_version().get(version)


def python_versions() -> tuple[Version, ...]:
    """Return the versions of all CPython interpreters, this program's own first, then
    the newest.
    """
    running, *others = _interpreters_by_version()
    return (running, *sorted(others, reverse=True))


@cache
def _interpreters_by_version() -> dict[Version, Path]:
    # uv searches its own folder and the PATH
    managed = sorted(Path.home().glob(".pyenv/versions/*/bin"), reverse=True)
    path = [os.environ.get("PATH", os.defpath), *map(str, managed)]
    options = "--only-installed --output-format json --offline --no-config"
    answer = run(
        [uv_program(), "python", "list", *options.split()],
        unlimited(_TIMEOUT),
        seal=None,
        purpose=Purpose.INSTALL,
        env={"PATH": os.pathsep.join(path)},
    )
    paths = {sys.version_info[:2]: Path(sys.executable)}
    for entry in json.loads(answer.stdout.text) if answer.ok else ():
        kind = entry["implementation"], entry["variant"]
        if entry["path"] and kind == ("cpython", "default"):
            paths.setdefault(major_minor(entry["version"]), Path(entry["path"]))
    return paths


def base_interpreter(python: Path) -> Path:
    """Return the interpreter that a virtual environment was made with; the interpreter
    itself if it is in none.
    """
    config = python.parents[1] / "pyvenv.cfg"
    if not config.is_file():
        return python
    home = re.search(r"(?m)^home *= *(.+?) *$", config.read_text("utf-8", "replace"))
    if home:
        return Path(home[1]) / python.name
    return python


def interpreter_folders(python: Path) -> tuple[Path, ...]:
    """Return the folders of an interpreter, and of the one that it was made with:
    programs, libraries and packages.
    """
    folders = [python.parents[1]]
    for base in (base_interpreter(python), base_interpreter(python).resolve()):
        folders += [base.parents[1] / name for name in ("bin", "lib", "lib64")]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def package_records(python: Path) -> Iterator[Path]:
    """Yield the records of the packages of an interpreter, and of the one that it was
    made with.
    """
    for root in {python.parents[1], base_interpreter(python).resolve().parents[1]}:
        yield from root.glob("lib/python3*/site-packages/*.dist-info/RECORD")


def installs_of(
    distribution: str, folders: Iterable[str | Path]
) -> Iterator[tuple[str, Path]]:
    """Yield the version of a package in each folder of packages that has it, and the
    folder. `importlib.metadata` would take longer than a known result.
    """
    pattern = f"{distribution.replace('-', '_')}-*.dist-info"
    for folder in map(Path, folders):
        for found in folder.glob(pattern):
            yield found.stem.partition("-")[2], folder


def editable_sources(environment: Path) -> tuple[Path, ...]:
    """Return the folders of packages that are installed in a virtual environment as
    links to their sources.
    """
    folders = []
    pattern = "lib/python3*/site-packages/*.dist-info/direct_url.json"
    for file in sorted(environment.glob(pattern)):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            origin = json.loads(file.read_text("utf-8"))
            address = urlsplit(origin["url"])
            if origin["dir_info"]["editable"] and address.scheme == "file":
                folders.append(Path(unquote(address.path)))
    return tuple(folders)


def major_minor(text: str) -> Version:
    """Return the first two numbers of a version: `(3, 11)` for `3.11.4`."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@cache
def uv_program() -> str:
    """Return the path of the uv that is installed next to this program."""
    from importlib.metadata import files  # slow to import

    # `uv.find_uv_bin` is not for threads: one may see what another has read by half
    paths = [file.locate() for file in files("uv") or () if file.name == "uv"]
    return str(paths[0])


def is_script(path: Path) -> bool:
    """Return whether a file begins with `#!` and the program that runs it."""
    with path.open("rb") as source:
        return source.read(2) == b"#!"
