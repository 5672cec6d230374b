"""Data files that come with the program, such as rules in YAML, read once.

Reading them takes as long as a small compile. So what was read is kept next to Python's
compiled modules, and in the same way: it counts as long as the files that it was made
from are unchanged, and a folder that cannot be written costs only time.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def kept(name: str, files: Iterable[Path], make: Callable[[], T]) -> T:
    """Return what `make` makes of files of the program, or what it made last time.

    name: of the kept file, unique in the program. files: with the modules that define
    the classes of the result.
    """
    stamp = [(str(path), *_stamp(path)) for path in files]
    compiled = Path(cache_from_source(__file__))
    place = compiled.with_name(f"{name}.{sys.implementation.cache_tag}.data")
    found = _read(place)
    if isinstance(found, tuple) and len(found) == 2 and found[0] == stamp:
        value: T = found[1]
        return value
    value = make()
    if not sys.dont_write_bytecode:
        _write(place, (stamp, value))
    return value


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _read(place: Path) -> Any:
    try:
        # it lies next to compiled modules, which are code as well
        return pickle.loads(place.read_bytes())  # noqa: S301
    except Exception:  # damaged, or of another version of the program
        return None


def _write(place: Path, value: object) -> None:
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    with suppress(OSError):
        place.parent.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(content)
            Path(name).replace(place)
        except OSError:
            Path(name).unlink()
