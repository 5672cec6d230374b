"""Keep what was read from triage's own data files, such as rules in YAML.

Reading them takes as long as a small compile. So the result is kept next to Python's
compiled modules, and in the same way: it is used as long as the files are unchanged,
and a folder that cannot be written costs only time.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import TypeVar

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
    place = Path(cache_from_source(__file__)).with_name(
        f"{name}.{sys.implementation.cache_tag}.data"
    )
    value: T
    with suppress(Exception):  # there is none, or it is damaged
        # it is next to compiled modules, which are code as well
        before, value = pickle.loads(place.read_bytes())  # noqa: S301
        if before == stamp:
            return value
    value = make()
    if not sys.dont_write_bytecode:
        temporary = place.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            place.parent.mkdir(exist_ok=True)
            temporary.write_bytes(pickle.dumps((stamp, value)))
            temporary.replace(place)
    return value
