"""Find Triton below a folder, and read what its package reports about itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from triage.compilers.base import pep440
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
    source = program.parents[1] / "__init__.py"
    found = _VERSION.search(source.read_text("utf-8", "replace")) if source.is_file() else None
    # The metadata of a nightly's wheel contains the commit, its source does not.
    named = [folder.name.removesuffix(".dist-info").split("-")[1] for folder in _metadata(program)]
    return pep440(named[0] if named else found[1] if found else None)


def commit(program: Path) -> str | None:
    """The commit in a development version."""
    match = _COMMIT.search(" ".join(path.name for path in _metadata(program)))
    return match[1] if match else None


def python(program: Path) -> tuple[int, int] | None:
    """The Python version of the wheel, if anything names it."""
    for folder in _metadata(program):
        tags = (folder / "WHEEL").read_text("utf-8", "replace") if (folder / "WHEEL").is_file() else ""
        if match := re.search(r"^Tag: cp(\d)(\d+)-", tags, re.MULTILINE):
            return int(match[1]), int(match[2])
    if match := re.search(r"/lib/python(3\.\d+)/site-packages/", str(program)):
        return version_of(match[1])
    return None


def backends(program: Path) -> frozenset[str]:
    """Return the backends that it can generate code for."""
    return frozenset({"cuda", "hip"} if (program.parents[1] / "backends" / "amd").is_dir() else {"cuda"})


def _metadata(program: Path) -> Iterator[Path]:
    root = import_root(program)
    yield from sorted(
        path for path in root.glob("*triton*.dist-info") if re.match(r"(?:pytorch_)?triton(?:_nightly)?-", path.name)
    )
