"""The first draft of many that still fails, looked for with several compiles at once and always the same one."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from triage.model.errors import Interrupted
from triage.reduce.draft import Draft

T = TypeVar("T")


class InterestingnessTest(Protocol):
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
                draft, _, answer = running[0]  # stays with the others until it is known: they end together
                found = answer.result()
                running.popleft()
                if found:
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
    hunt: InterestingnessTest,
    *,
    whole: bool = True,
    alike: Callable[[T], Hashable] | None = None,
) -> tuple[list[T], Draft | None]:
    """Drop as many items as the failure can do without: all, then halves, quarters, down to single ones (ddmin's
    complements). `build` makes the draft of the items that stay, None where there is none.

    whole: begin with dropping everything at once. alike: a kind for each item; all items of a kind are dropped together
    where that is possible, and where three chunks of the same kinds could not be dropped, the others of these kinds are
    not tried: a chain that has to be long has hundreds of equal links.
    Returns the items left and their draft; None when nothing was dropped.
    """
    left, best = list(items), None
    if whole and left and (found := _asked(build([]), hunt)) is not None:
        return [], found
    if alike:
        left, best = _drop_kinds(left, build, hunt, alike)
    chunk = (len(left) + 1) // 2
    while left:
        before = len(left)
        left, found = _drop_chunks(left, chunk, build, hunt, alike)
        best = found or best
        if chunk == 1 and len(left) == before:
            break
        chunk = max(1, min(chunk // 2, len(left)))
    return left, best


def _drop_kinds(
    left: list[T], build: Callable[[Sequence[T]], Draft | None], hunt: InterestingnessTest, alike: Callable[[T], Hashable]
) -> tuple[list[T], Draft | None]:
    """Drop whole kinds that have several items."""
    best = None
    counted = Counter(map(alike, left))
    for kind in [kind for kind, count in counted.items() if count > 1]:
        kept = [item for item in left if alike(item) != kind]
        if kept and (found := _asked(build(kept), hunt)) is not None:
            left, best = kept, found
    return left, best


def _asked(draft: Draft | None, hunt: InterestingnessTest) -> Draft | None:
    return hunt.first([draft]) if draft is not None else None


_ENOUGH = 3  # chunks of equal kinds that could not be dropped


def _drop_chunks(
    left: list[T],
    chunk: int,
    build: Callable[[Sequence[T]], Draft | None],
    hunt: InterestingnessTest,
    alike: Callable[[T], Hashable] | None,
) -> tuple[list[T], Draft | None]:
    """Go once along the items and drop each chunk that can be dropped."""
    best, at = None, 0
    refused: Counter[Hashable] = Counter()
    while at < len(left):
        tried: list[tuple[Draft, int, Hashable]] = []

        def drafts(left: list[T] = left, at: int = at, tried: list[tuple[Draft, int, Hashable]] = tried) -> Iterator[Draft]:
            for start in range(at, len(left), chunk):
                kind = tuple(map(alike, left[start : start + chunk])) if alike else None
                if alike and refused[kind] >= _ENOUGH:
                    continue
                draft = build([*left[:start], *left[start + chunk :]])
                if draft is not None:
                    refused[kind] += 1  # until it is known to be the one that could be dropped
                    tried.append((draft, start, kind))
                    yield draft

        found = hunt.first(drafts())
        if found is None:
            break
        start, kind = next((start, kind) for draft, start, kind in tried if draft is found)
        refused[kind] = 0
        left, best, at = [*left[:start], *left[start + chunk :]], found, start
    return left, best


def greedily(draft: Draft, hunt: InterestingnessTest, changes: Callable[[Draft], Iterable[Draft]]) -> Draft:
    """Take one change after another, each that still fails. changes: all that can be made of a draft, in an order that a
    change does not alter before the place it is made at; after one is taken the search goes on from that place.
    """
    at = 0
    while True:
        offered: list[tuple[int, Draft]] = []

        def drafts(base: Draft = draft, at: int = at, offered: list[tuple[int, Draft]] = offered) -> Iterator[Draft]:
            for number, made in enumerate(changes(base)):
                if number >= at and (made.document.content, made.case) != (base.document.content, base.case):
                    offered.append((number, made))
                    yield made

        found = hunt.first(drafts())
        if found is None:
            return draft
        draft, at = found, next(number for number, made in offered if made is found)
