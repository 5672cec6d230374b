"""How long toolchains take to obtain, learnt from those that were."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from filelock import FileLock

from triage.toolchains.home import write_whole

_REMEMBERED = 15  # the last ones: a network and a compiler cache change


class Prices:
    """Past timings by kind, in one small file. Losing it costs good estimates and nothing else."""

    def __init__(self, note: Path) -> None:
        self._note = note

    def seconds(self, kind: str, default: float) -> float:
        """What one of this kind may take: the median of the past ones, `default` before there are any."""
        past = self._past().get(kind)
        return median(past) if past else default

    def learn(self, kind: str, seconds: float) -> None:
        """Remember that one took this long."""
        with suppress(OSError):
            self._note.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._note.with_suffix(".lock")):
                past = self._past()
                past[kind] = [*past.get(kind, ()), round(seconds, 3)][-_REMEMBERED:]
                write_whole(self._note, json.dumps(past, indent=1, sort_keys=True))

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Learn how long the block takes, unless it fails."""
        begun = time.monotonic()
        yield
        self.learn(kind, time.monotonic() - begun)

    def _past(self) -> dict[str, list[float]]:
        try:
            kept = json.loads(self._note.read_text())
            return {str(kind): [float(one) for one in past] for kind, past in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
