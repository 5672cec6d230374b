"""Find Triton below a folder, and read what its package reports about itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from triage.compilers.interpreters import version_of

_LIBRARY = "triton/_C/libtriton*.so"
_PLACES = (_LIBRARY, f"lib/python3*/site-packages/{_LIBRARY}", f"python/{_LIBRARY}")
# The Python part compiles as much as the library does; assemblers and device libraries come with it.
_PARTS = ("**/*.py", "**/bin/ptxas*", "**/*.bc")
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
_COMMIT = re.compile(r"\+git([0-9a-f]{7,40})")


def locate(root: Path) -> Path | None:
    """`libtriton.so` of an unpacked wheel, a virtual environment, a source tree built in place, or the library itself."""
    if root.is_file():
        return root.absolute() if root.match("libtriton*.so") else None
    paths = (path.absolute() for pattern in _PLACES for path in sorted(root.glob(pattern)))
    return next(paths, None)


def import_root(program: Path) -> Path:
    """The folder to import `triton` from."""
    return program.parents[2]


def identity_files(program: Path) -> tuple[Path, ...]:
    """Return the library and the files of its package that affect the result of a compile."""
    package = program.parents[1]
    return (program, *sorted(path for pattern in _PARTS for path in package.glob(pattern) if path.is_file()))


def version(program: Path) -> str | None:
    """The package's version, PEP 440."""
    try:
        match = _VERSION.search((program.parents[1] / "__init__.py").read_text("utf-8", "replace"))
    except OSError:
        return None
    versions = [match[1]] if match else []
    # The metadata of a nightly's wheel contains the commit, its source does not.
    versions = [folder.name.removesuffix(".dist-info").split("-")[1] for folder in _metadata(program)] or versions
    try:
        return str(Version(versions[0])) if versions else None
    except InvalidVersion:
        return None


def commit(program: Path) -> str | None:
    """The commit in a development version; None for a release."""
    match = _COMMIT.search(" ".join(path.name for path in _metadata(program)))
    return match[1] if match else None


def python(program: Path) -> tuple[int, int] | None:
    """The Python version of the wheel; None when nothing names it."""
    for folder in _metadata(program):
        try:
            tags = (folder / "WHEEL").read_text("utf-8", "replace")
        except OSError:
            continue
        if match := re.search(r"^Tag: cp(\d)(\d+)-", tags, re.MULTILINE):
            return int(match[1]), int(match[2])
    if match := re.search(r"/lib/python(3\.\d+)/site-packages/", str(program)):
        return version_of(match[1])
    return None


def backends(program: Path) -> frozenset[str]:
    """Return the backends that it can generate code for."""
    package = program.parents[1]
    names = {"cuda"} | ({"hip"} if (package / "backends" / "amd").is_dir() else set())
    return frozenset(names)


def _metadata(program: Path) -> Iterator[Path]:
    root = import_root(program)
    yield from sorted(
        path for path in root.glob("*triton*.dist-info") if re.match(r"(?:pytorch_)?triton(?:_nightly)?-", path.name)
    )
