"""The port of a source: what it can bring for which places of a timeline, at which price."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from filelock import FileLock

from triage.git_history import CommitPosition, Timeline
from triage.model.errors import Interrupted, Unobtainable
from triage.model.progress import Progress, Silent
from triage.model.revision import Revision
from triage.toolchains.home import write_whole

__all__ = ["Offer", "Source", "Unobtainable", "Workplace"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One toolchain that a source can bring; plain data, so that a worker elsewhere can be sent for it.

    `placement` lies on the timeline that was asked. Where it is not exact, the commit may only be known once the
    compiler is asked; `revision.commit` is None as long as it is a guess. `seconds`: how long obtaining it may take, 0
    when it is here. `untestable`: why it is known beforehand that it cannot be had. `item` is the source's own word.
    """

    source: str
    revision: Revision
    placement: CommitPosition
    seconds: float
    item: str
    untestable: str | None = None


class Source(Protocol):
    """One way to come by compilers. Both calls may come from several threads at once."""

    name: str

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """What there is for these places, oldest first; several offers may share a place. EnvironmentFailure when the
        source cannot be asked.
        """

    def obtain(self, offer: Offer) -> Path:
        """The folder of the toolchain, brought here if need be. Unobtainable when there is none; EnvironmentFailure
        when it could not be brought now.
        """


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where sources work: the home folder, whom they tell how far they are, and the event that stops them."""

    home: Path
    progress: Progress = field(default_factory=Silent)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def toolchains(self) -> Path:
        """The folder of all installed toolchains."""
        return self.home / "toolchains"

    def pause(self, seconds: float) -> None:
        """Wait. Interrupted when everything is to stop."""
        if self.stop.wait(seconds):
            raise Interrupted("stopped")


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
