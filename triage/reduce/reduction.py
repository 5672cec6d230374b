"""One reduction under way: what was asked, what is known of it, the best draft so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from hashlib import sha256

from triage.model.progress import Task
from triage.reduce.draft import Document, Draft
from triage.reduce.oracle import Oracle
from triage.reduce.search import Racing

Valid = Callable[[Document], bytes | None]


class Trail:
    """The drafts that a pass took one after another, evenly thinned out: each may be as large as the model."""

    most = 16

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._taken, self._every = 0, 1

    def add(self, draft: Draft) -> None:
        """One more, which is kept if it is its turn."""
        self._taken += 1
        if self._taken % self._every == 0:
            self.drafts.append(draft)
        if len(self.drafts) > self.most:
            self.drafts = self.drafts[1::2]
            self._every *= 2


class Reduction:
    """The hunt that passes are given. Nothing is asked twice, and what is not valid is not compiled."""

    def __init__(self, oracle: Oracle, valid: Valid, keep: Callable[[Draft], None], jobs: int, task: Task) -> None:
        """valid: the canonical content of a valid document, else None; keep: is told each better draft, at once."""
        self.oracle = oracle
        self.best: Draft | None = None
        self.trail = Trail()  # of the pass under way
        self.strict = False  # ask the good toolchain about each draft that fails, not only about a pass's last
        self.invalid = 0
        self._valid, self._keep, self._task = valid, keep, task
        self._what = "the original"
        self._known: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._racing = Racing(self._ask, jobs)

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """The first of the drafts, in order, that fails as it should; it becomes the best."""
        found = self._racing.first(drafts)
        if found is not None:
            self.trail.add(found)
            self.settle(found)
        return found

    def sound(self, draft: Draft) -> bool:
        """Whether the draft is valid and not the same program as the best one."""
        content = self._valid(draft.document)
        same = self.best is not None and _settings(draft) == _settings(self.best)
        return content is not None and not (same and self.best and content == self._valid(self.best.document))

    def settle(self, draft: Draft, *, compiles: bool = False) -> None:
        """Make a draft the best. compiles: the good toolchain compiles it; only then it may be gone on from another day."""
        self.best = draft
        if compiles or self.strict or self.oracle.good is None:
            self._keep(draft)
        self.tell()

    def tell(self, what: str | None = None) -> None:
        """Show where the reduction is. what: the pass that begins; without it the last one goes on."""
        self._what = what if what is not None else self._what
        tally = self.oracle.tally
        size = f"{self.best.document.size} {self.best.document.unit}s" if self.best else ""
        slipped = sum(count for _, count in tally.slipped.values())
        self._task.describe(f"reduce  {self._what}  {size}, {tally.calls} compiles, {tally.cached} known, {slipped} slipped")

    def close(self) -> None:
        """End the threads."""
        self._racing.close()

    def _ask(self, draft: Draft, cancelled: threading.Event) -> bool:
        content = self._valid(draft.document)
        if content is None:
            with self._lock:
                self.invalid += 1
            return False
        key = sha256(content + repr((_settings(draft), self.strict)).encode()).hexdigest()
        with self._lock:
            alone = self._asking.setdefault(key, threading.Lock())
        with alone:  # two ways to one program may be under way at once
            if key not in self._known:
                verdict = self.oracle.fails(draft, cancelled) and (not self.strict or self.oracle.compiles(draft, cancelled))
                self._known[key] = verdict
                self._task.advance()
            return self._known[key]


def _settings(draft: Draft) -> tuple[object, ...]:
    return draft.case.flags, draft.case.target, draft.case.phase, draft.case.how
