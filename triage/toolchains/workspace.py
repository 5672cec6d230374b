"""What everything that obtains toolchains shares: the home folder, its state, the progress and the event to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.progress import Progress, Silent
from triage.toolchains.state import StateSection, StateStore


@dataclass(frozen=True)
class Workspace:
    """Where toolchains are obtained. Setting `stop` ends downloads, installs and builds."""

    home: Path
    progress: Progress = field(default_factory=Silent)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def toolchains(self) -> Path:
        """The folder of all installed toolchains."""
        return self.home / "toolchains"

    @cached_property
    def state(self) -> StateStore:
        """The state store of the home folder."""
        return StateStore(self.home / "state.db")

    @cached_property
    def costs(self) -> CostModel:
        """How long obtaining toolchains took so far."""
        return CostModel(self.state.section("costs"))

    @property
    def histories(self) -> StateSection:
        """The cache of the histories of repositories."""
        return self.state.section("histories")

    def pause(self, seconds: float) -> None:
        """Wait. Interrupted when `stop` is set."""
        if self.stop.wait(seconds):
            raise Interrupted("stopped")


_REMEMBERED = 15  # timings a kind: the network and the compiler cache change


class CostModel:
    """Past durations by kind, to estimate the next ones. Failures to read or write them are ignored."""

    def __init__(self, timings: StateSection) -> None:
        self._timings = timings

    def seconds(self, kind: str, default: float) -> float:
        """The median of the past durations of this kind, `default` before there are any."""
        with suppress(EnvironmentFailure):
            return float(median(self._timings.get(kind) or [default]))
        return default

    def learn(self, kind: str, seconds: float) -> None:
        """Record a duration."""
        with suppress(EnvironmentFailure):
            self._timings.update(kind, lambda past: [*(past or ()), round(seconds, 3)][-_REMEMBERED:])

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Record how long the block takes, unless it fails."""
        begun = time.monotonic()
        yield
        self.learn(kind, time.monotonic() - begun)
