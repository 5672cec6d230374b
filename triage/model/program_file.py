"""Keep what was read from triage's own data files, such as rules in YAML.

Reading them takes as long as a small compile. So the result is kept next to Python's
compiled modules, and in the same way: it is used as long as the files are unchanged,
and a folder that cannot be written costs only time.
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
    """Return what `make` returns, or what it returned before if no file has changed.

    Args:
        name: The name of the kept file, unique in triage.
        files: The data files, and the modules that define the classes of the result.
        make: Reads the files.
    """
    stats = ((path, path.stat()) for path in files)
    stamp = [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats]
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


def _read(place: Path) -> Any:
    try:
        # it is next to compiled modules, which are code as well
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
