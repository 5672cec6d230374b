"""The interestingness test of a reduction: parallel, with remembered answers, and free for invalid programs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256

from triage.model.case import Case
from triage.model.errors import Interrupted
from triage.model.progress import Task
from triage.reduce.draft import Document, Draft
from triage.reduce.oracle import Oracle


class ParallelFirstMatch:
    """Answers a question about drafts on several threads. Which draft wins does not depend on timing."""

    def __init__(self, ask: Callable[[Draft, threading.Event], bool], jobs: int) -> None:
        """ask: returns the answer for a draft, or raises Interrupted after its event is set."""
        self._ask, self._jobs = ask, jobs
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="draft")

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """Return the first draft in order whose answer is yes, and cancel the later ones that are running."""
        running: deque[tuple[Draft, threading.Event, Future[bool]]] = deque()
        source = iter(drafts)
        try:
            while True:
                while len(running) < self._jobs and (draft := next(source, None)) is not None:
                    cancelled = threading.Event()
                    running.append((draft, cancelled, self._pool.submit(self._ask, draft, cancelled)))
                if not running:
                    return None
                draft, _, answer = running[0]  # stays in the queue until answered, so that it is cancelled with the others
                interesting = answer.result()
                running.popleft()
                if interesting:
                    return draft
        finally:
            for _, cancelled, _ in running:
                cancelled.set()
            for _, _, answer in running:
                with suppress(Interrupted):
                    answer.result()

    def close(self) -> None:
        """End the threads; no question may be running."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class Trail:
    """The drafts that one pass accepted, thinned out evenly: each may be as large as the model."""

    most = 16

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._taken, self._every = 0, 1

    def add(self, draft: Draft) -> None:
        """Record the next draft, or skip it when the trail is thinned out."""
        self._taken += 1
        if self._taken % self._every == 0:
            self.drafts.append(draft)
        if len(self.drafts) > self.most:
            self.drafts = self.drafts[1::2]
            self._every *= 2


class ReductionTest:
    """The interestingness test that passes ask. Asks no question twice and compiles no invalid program."""

    def __init__(
        self,
        oracle: Oracle,
        valid: Callable[[Document], bytes | None],
        save: Callable[[Draft], None],
        jobs: int,
        task: Task,
    ) -> None:
        """valid: returns a program's canonical content, None when it is invalid. save: stores each better draft at once."""
        self.oracle = oracle
        self.best: Draft | None = None
        self.trail = Trail()  # of the running pass
        self.strict = False  # ask the good toolchain about every failing draft, not only about a pass's last one
        self.invalid = 0
        self._valid, self._save, self._task = valid, save, task
        self._activity = "the original"
        self._answers: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._parallel = ParallelFirstMatch(self._ask, jobs)

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """Return the first interesting draft in order and make it the best."""
        found = self._parallel.first(drafts)
        if found is not None:
            self.trail.add(found)
            self.settle(found)
        return found

    def is_valid(self, draft: Draft) -> bool:
        """Return whether the draft is valid and differs from the best one."""
        content = self._valid(draft.document)
        if content is None or self.best is None or settings_of(draft.case) != settings_of(self.best.case):
            return content is not None
        return content != self._valid(self.best.document)

    def settle(self, draft: Draft, *, compiles: bool = False) -> None:
        """Make a draft the best. It is saved only when the good toolchain is known to compile it (`compiles`)."""
        self.best = draft
        if compiles or self.strict or self.oracle.good is None:
            self._save(draft)
        self.report()

    def report(self, activity: str | None = None) -> None:
        """Show the progress. activity: the pass that starts now, None while the last one continues."""
        self._activity = activity if activity is not None else self._activity
        tally = self.oracle.tally
        size = f"{self.best.document.size} {self.best.document.unit}s" if self.best else ""
        others = sum(count for _, count in tally.other_failures.values())
        self._task.describe(
            f"reduce  {self._activity}  {size}, {tally.calls} compiles, {tally.cached} cache hits, {others} other failures"
        )

    def close(self) -> None:
        """End the threads."""
        self._parallel.close()

    def _ask(self, draft: Draft, cancelled: threading.Event) -> bool:
        content = self._valid(draft.document)
        if content is None:
            with self._lock:
                self.invalid += 1
            return False
        key = sha256(content + repr((settings_of(draft.case), self.strict)).encode()).hexdigest()
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:  # two drafts of one program may be in flight
            if key not in self._answers:
                self._answers[key] = self.oracle.fails(draft, cancelled) and (
                    not self.strict or self.oracle.compiles(draft, cancelled)
                )
                self._task.advance()
            return self._answers[key]


def settings_of(case: Case) -> tuple[object, ...]:
    """Return the parts of a case that passes change."""
    return case.flags, case.target, case.phase, case.spec
