"""The port of a source: what it can bring for which places of a timeline, at which price."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from triage.model.errors import Interrupted, Unobtainable
from triage.model.progress import Progress, Silent
from triage.model.revision import Revision
from triage.timeline import Placement, Timeline

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
    placement: Placement
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
