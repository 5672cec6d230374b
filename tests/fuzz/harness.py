"""Run a target on one input. A finding is an error that is not the program's own, a
broken property, or a slow check.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import FrameType

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS, seeds_of
from triage.model.errors import TriageError

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10.0  # for one input of at most 64 KiB, on a busy machine


class TooSlow(BaseException):
    """A check took too long. Nothing that it calls may catch this."""


def failure_of(name: str, data: bytes) -> tuple[str, str] | None:
    """The place and the report of the failure of a target on an input; None when there
    is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _limit(SECONDS):
                TARGETS[name].check(data, Path(folder))
        except TriageError:
            return None
        except (Exception, TooSlow) as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = next(
                (frame for frame in reversed(frames) if "/triage/" in frame.filename),
                frames[-1],
            )
            place = f"{type(error).__name__} at {Path(own.filename).name}:{own.lineno}"
            return place, "".join(traceback.format_exception(error, limit=-6))
    return None


def fuzz(
    name: str, seconds: float, seed: int
) -> tuple[int, dict[str, tuple[bytes, str]]]:
    """Check mutations of a target's seeds for some time; return their number, and input
    and report by the place that failed.

    Of the inputs that fail at one place the smallest is kept.
    """
    findings: dict[str, tuple[bytes, str]] = {}
    executions = 0
    randomly = random.Random(f"{name} {seed}")
    seeds = seeds_of(name)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = (
            seeds[executions] if executions < len(seeds) else mutated(seeds, randomly)
        )
        executions += 1
        if (failure := failure_of(name, data)) is not None:
            place, report = failure
            if place not in findings or len(data) < len(findings[place][0]):
                findings[place] = data, report
    return executions, findings


def save(name: str, data: bytes) -> Path:
    """Write an input that failed into the corpus."""
    path = CORPUS / name / sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(_: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not finished after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
