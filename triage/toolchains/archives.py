"""Zip archives from elsewhere: wheels, and artifacts that contain them. Damaged and malicious ones are refused."""

from __future__ import annotations

import lzma
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.toolchains.home import disk_errors

_MOST_UNPACKED = 30  # bytes for each byte of the archive; the released wheels need up to 5
_ALWAYS_UNPACKED = 64 << 20  # bytes that any archive may contain
# What zipfile raises for archives that are cut off, changed or made up.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
)


def check_wheel(wheel: Path, name: str) -> int:
    """Check that unpacking a wheel writes only into its own folder, and not endlessly. Returns the bytes that it unpacks to.
    `name` stands for it in messages.

    Raises:
        Unobtainable: the file is damaged, or has absolute paths, paths with `..`, links, or far too much content.
    """
    with _opened(wheel, name) as archive:
        members = archive.infolist()
        for member in members:
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
                raise Unobtainable(f"{name} is malicious: it would write to {member.filename!r}")
            if stat.S_ISLNK(member.external_attr >> 16):
                raise Unobtainable(f"{name} is malicious: {member.filename!r} is a link")
        size = sum(member.file_size for member in members)
        _check_size(name, size, wheel.stat().st_size)
    return size


def extract(archive: Path, folder: Path, name: str, choose: Callable[[list[str]], str]) -> None:
    """Extract the one file that `choose` selects from the names of the files. Folders in the archive are ignored.

    Raises:
        Unobtainable: the archive is damaged, or the file is far larger than its compressed form.
        EnvironmentFailure: the disk is full.
    """
    with _opened(archive, name) as inside:
        members = {PurePosixPath(member.filename).name: member for member in inside.infolist() if not member.is_dir()}
        chosen = choose(sorted(members))
        member = members[chosen]
        _check_size(f"{chosen} in {name}", member.file_size, member.compress_size)
        if shutil.disk_usage(folder).free < member.file_size:
            raise EnvironmentFailure(f"cannot extract {name}: no space left on the disk of {folder}")
        with disk_errors(f"extract {name}"), inside.open(member) as source, (folder / chosen).open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)


@contextmanager
def _opened(archive: Path, name: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as inside:
            yield inside
    except _DAMAGE as error:
        raise Unobtainable(f"{name} is damaged: {error}") from error


def _check_size(name: str, size: int, packed: int) -> None:
    if size > _ALWAYS_UNPACKED + _MOST_UNPACKED * packed:
        raise Unobtainable(f"{name} is malicious: its {packed} bytes unpack to {size}")
