"""The first draft of many that still fails, looked for with several compiles at once and always the same one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from triage.model.errors import Interrupted
from triage.reduce.draft import Draft

T = TypeVar("T")


class Hunt(Protocol):
    """What a pass is given: the way to ask about drafts."""

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """The first of the drafts, in their order, that fails as it should; None when none does."""

    def sound(self, draft: Draft) -> bool:
        """Whether the draft is a valid program at all; asks no compiler."""


class Racing:
    """Runs a question about drafts on `jobs` threads. Which draft wins does not depend on which compile ends first."""

    def __init__(self, ask: Callable[[Draft, threading.Event], bool], jobs: int) -> None:
        self._ask = ask
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="draft")
        self._jobs = jobs

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """The first that the question holds for. Later ones that are under way by then are ended."""
        running: deque[tuple[Draft, threading.Event, Future[bool]]] = deque()
        source = iter(drafts)
        try:
            while True:
                while len(running) < self._jobs and (draft := next(source, None)) is not None:
                    cancelled = threading.Event()
                    running.append((draft, cancelled, self._pool.submit(self._ask, draft, cancelled)))
                if not running:
                    return None
                draft, _, answer = running.popleft()
                if answer.result():
                    return draft
        finally:
            for _, cancelled, _ in running:
                cancelled.set()
            for _, _, answer in running:
                _settle(answer)

    def close(self) -> None:
        """End the threads; nothing may be under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _settle(answer: Future[bool]) -> None:
    """Wait for one that was told to end. What it found is of no interest, nor that it was interrupted."""
    try:
        answer.result()
    except Interrupted:
        return


def minimise(
    items: Sequence[T],
    build: Callable[[Sequence[T]], Draft | None],
    hunt: Hunt,
    *,
    whole: bool = True,
) -> tuple[list[T], Draft | None]:
    """Drop as many items as the failure can do without: all, then halves, quarters, down to single ones (ddmin's
    complements). `build` makes the draft of the items that stay, None where there is none.

    whole: begin with dropping everything at once. Returns the items left and their draft; None when nothing was dropped.
    """
    left, best = list(items), None
    chunk = len(left) if whole else (len(left) + 1) // 2
    while left and chunk:
        dropped = False
        at = 0
        while at < len(left):
            starts = range(at, len(left), chunk)
            candidates = {start: [*left[:start], *left[start + chunk :]] for start in starts}
            drafts: dict[int, Draft] = {}

            def build_all(candidates: dict[int, list[T]] = candidates, drafts: dict[int, Draft] = drafts) -> Iterator[Draft]:
                for start, kept in candidates.items():
                    if (draft := build(kept)) is not None:
                        drafts[start] = draft
                        yield draft

            found = hunt.first(build_all())
            if found is None:
                break
            at = next(start for start, draft in drafts.items() if draft is found)
            left, best, dropped = candidates[at], found, True
        if chunk == 1 and not dropped:
            break
        chunk = max(1, min(chunk // 2, len(left))) if chunk > 1 else 1
    return left, best
