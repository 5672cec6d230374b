"""Whether a draft still shows the failure: on the bad toolchain the same one, on the good one none."""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from triage.execution.judge import Match
from triage.execution.prober import Naming, Prober
from triage.model.case import Case, Input
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Toolchain
from triage.reduce.draft import Draft


@dataclass(slots=True)
class Tally:
    """What the oracle was asked. `slipped`: other failures that were met, by signature, each with how often."""

    calls: int = 0  # compiles made, on either toolchain
    cached: int = 0
    seconds: float = 0.0  # of compiling, summed over the compiles
    slipped: dict[str, tuple[Failure, int]] = field(default_factory=dict)


class Oracle:
    """Compiles drafts. Safe for several threads; a draft's file is gone when its verdict is known."""

    def __init__(
        self,
        prober: Prober,
        folder: Path,
        bad: Toolchain,
        good: Toolchain | None,
        match: Match,
        *,
        naming: Naming,
        repeats: int = 1,
        slipped: Path | None = None,
    ) -> None:
        """folder: exists, for drafts' files. naming: how the failure is told from others. repeats: compiles of a draft that
        passes, for a failure that comes and goes. slipped: a folder that exists, for the smallest program of each other
        failure that is met.
        """
        self.bad, self.good = bad, good
        self.tally = Tally()
        self._prober, self._folder, self._match = prober, folder, match
        self._naming, self._repeats, self._slipped = naming, repeats, slipped
        self._smallest: dict[str, Draft] = {}  # by the signature of another failure
        self._lock = threading.Lock()

    def fails(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Whether the bad toolchain fails on it as it should. Another failure is slippage: noted, and no."""
        for attempt in range(self._repeats):
            outcome = self._compile(draft, self.bad, attempt, cancelled)
            if isinstance(outcome, Failed):
                if self._match(outcome.failure):  # the root cause alone: what is left has to be told by it
                    return True
                self.note(outcome.failure, draft)
        return False

    def compiles(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Whether the good toolchain compiles it; true without one."""
        return self.good is None or isinstance(self._compile(draft, self.good, 0, cancelled), Compiled)

    def slipped_on(self) -> list[Failure]:
        """Other failures that were met, the most frequent first."""
        with self._lock:
            return [failure for failure, _ in sorted(self.tally.slipped.values(), key=lambda one: -one[1])]

    def met(self) -> list[tuple[Draft, Path]]:
        """For each other failure the smallest draft that showed it and the file it is kept in, the most frequent first; none
        where nothing is kept.
        """
        drafts = [(failure.signature, self._smallest.get(failure.signature)) for failure in self.slipped_on()]
        return [(draft, self._file(signature, draft)) for signature, draft in drafts if draft is not None]

    def note(self, failure: Failure, draft: Draft) -> None:
        """Count another failure that was met, and keep its program where that is wanted: at once, for whoever interrupts."""
        with self._lock:
            _, count = self.tally.slipped.get(failure.signature, (failure, 0))
            self.tally.slipped[failure.signature] = failure, count + 1
            best = self._smallest.get(failure.signature)
            if self._slipped and (best is None or len(best.document.content) > len(draft.document.content)):
                self._smallest[failure.signature] = draft
                self._file(failure.signature, draft).write_bytes(draft.document.content)

    def _file(self, signature: str, draft: Draft) -> Path:
        assert self._slipped
        return self._slipped / f"{_slug(signature)}.{draft.document.suffix}"

    def _compile(self, draft: Draft, toolchain: Toolchain, attempt: int, cancelled: threading.Event) -> Outcome:
        return self.tried(draft, toolchain, attempt, cancelled).outcome

    def tried(self, draft: Draft, toolchain: Toolchain, attempt: int, cancelled: threading.Event) -> Probe:
        """One compile of a draft, or what is known of that repetition."""
        content = draft.document.content
        name = f"{sha256(content).hexdigest()[:24]}-{threading.get_ident()}"
        # In a folder of its own: some compilers name what they make by the file, and want a name that is an identifier.
        path = self._folder / name / f"input.{draft.document.suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        try:
            probe = self._prober.trial(case_of(draft, path), toolchain, self._naming, attempt=attempt, cancelled=cancelled)
        finally:
            shutil.rmtree(path.parent, ignore_errors=True)  # with what a compiler may have put beside it
        self._count(probe)
        return probe

    def _count(self, probe: Probe) -> None:
        with self._lock:
            if probe.cached:
                self.tally.cached += 1
            elif not isinstance(probe.outcome, Untestable) or probe.measured.seconds:
                self.tally.calls += 1
                self.tally.seconds += probe.measured.seconds


def _slug(signature: str) -> str:
    """A signature as a file's name; what does not fit is told apart by a digest of the whole."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", signature).strip("-")[:60]
    return f"{words}-{sha256(signature.encode()).hexdigest()[:6]}"


def case_of(draft: Draft, path: Path) -> Case:
    """The draft as a case whose input is the file at `path`. Named so that its evidence is not taken for the recipe's."""
    name = f"{draft.case.name} (reducing)"
    return replace(draft.case, name=name, input=Input(path, draft.document.kind), expect=())
