"""The files of a compiler behind a command, and its version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from triage.compilers.base import pep440
from triage.compilers.command.spec import VersionRule
from triage.compilers.invocation import fill_placeholders
from triage.execution.process import capture
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending

_CODE = re.compile(r".*\.(?:so(?:\.\d+)*|dylib|py|jar|bc)")
_NOT_OURS = {"__pycache__", "CMakeFiles", ".git", ".cache"}
_TIMEOUT = 60.0  # seconds for printing the version


def locate(root: Path) -> Path | None:
    """The interpreter of a virtual environment; otherwise the folder or the program itself."""
    if not root.exists():
        return None
    python = root / "bin" / "python"
    return (python if environment_of(python) else root).absolute()


def environment_of(program: Path) -> Path | None:
    """The virtual environment whose interpreter this is; None for anything else."""
    root = program.parent.parent
    return root if program.name == "python" and (root / "pyvenv.cfg").is_file() else None


def identity_files(program: Path) -> tuple[Path, ...]:
    """Return the files that decide what the compiler does: all of a virtual environment; the programs, libraries and scripts
    of a folder; or the program.
    """
    root = environment_of(program)
    if root is not None:
        return (root / "pyvenv.cfg", *sorted(path for folder in _site(root) for path in _files(folder)))
    if program.is_dir():
        return tuple(sorted(path for path in _files(program) if _CODE.fullmatch(path.name) or os.access(path, os.X_OK)))
    return (program,)


def site_packages(root: Path) -> Path:
    """The folder of a virtual environment that packages are installed in."""
    return next(iter(_site(root)), root / "lib")


def package_version(program: Path, distribution: str) -> str | None:
    """The version of a distribution in a virtual environment; None where it is not in there."""
    root = environment_of(program)
    for folder in _site(root) if root else ():
        for metadata in folder.glob("*.dist-info"):
            name, _, version = metadata.name.removesuffix(".dist-info").partition("-")
            if canonicalize_name(name) == canonicalize_name(distribution):
                return pep440(version)
    return None


def reported_version(rule: VersionRule, places: Mapping[str, str]) -> str | None:
    """Return the version that the compiler prints. EnvironmentFailure when it does not run; None without a version in it."""
    argv = [fill_placeholders(word, places) for word in rule.run]
    answer = capture(argv, _TIMEOUT)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(f"{argv[0]} does not print its version: {answer.stderr.last_line or answer.ending}")
    match = re.search(rule.pattern, answer.stdout.text + answer.stderr.text)
    return pep440(match[1] if match.groups() else match[0]) if match else None


def _site(root: Path) -> list[Path]:
    return sorted(root.glob("lib/python3*/site-packages"))


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (path for name in names if (path := Path(parent, name)).is_file() and path.suffix != ".pyc")
