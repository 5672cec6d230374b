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
_PATIENCE = 60.0  # seconds that one may take to say its version


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
    """All that is installed in a virtual environment, which names its interpreter; the programs, libraries and scripts
    of a folder; a program alone.
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
        for found in folder.glob("*.dist-info"):
            name, _, version = found.name.removesuffix(".dist-info").partition("-")
            if canonicalize_name(name) == canonicalize_name(distribution):
                return pep440(version)
    return None


def reported_version(rule: VersionRule, places: Mapping[str, str]) -> str | None:
    """What the compiler answers. EnvironmentFailure when it does not run; None when the answer holds no version."""
    argv = [fill_placeholders(word, places) for word in rule.run]
    answer = capture(argv, _PATIENCE)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(f"{argv[0]} does not print its version: {answer.stderr.last_line or answer.ending}")
    found = re.search(rule.pattern, answer.stdout.text + answer.stderr.text)
    return pep440(found[1] if found.groups() else found[0]) if found else None


def _site(root: Path) -> list[Path]:
    return sorted(root.glob("lib/python3*/site-packages"))


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (path for name in names if (path := Path(place, name)).is_file() and path.suffix != ".pyc")
