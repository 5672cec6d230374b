"""Drafts of a smaller program, the passes that make them, and the two searches that passes are built on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar

from triage.model.case import Case, InputKind

T = TypeVar("T")
_ENOUGH = 3  # chunks of equal kinds that could not be dropped


class Document(Protocol):
    """A program in a form that passes can change. Passes build new programs and never change one in place."""

    @property
    def kind(self) -> InputKind:
        """How the compiler reads it."""

    @property
    def suffix(self) -> str:
        """The suffix of its file, without the dot."""

    @property
    def unit(self) -> str:
        """What `size` counts: operation, node, statement or line."""

    @property
    def content(self) -> bytes:
        """The bytes that a compiler reads; equal for programs that differ only in names, where the form allows it."""

    @property
    def size(self) -> int:
        """How many pieces can be removed."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A value of a program that others were cut out of, which may be an argument of these. key: the value in its document."""

    document: Document
    key: Hashable


@dataclass(frozen=True, slots=True)
class Entry:
    """The function of a program that is run. name: None for the only one; arguments: origin (None when it is not known) and
    type of each, in the program's notation.
    """

    name: str | None
    arguments: tuple[tuple[Origin | None, str], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """A program with the case that it is compiled under. The case's own input is ignored."""

    document: Document
    case: Case


class InterestingnessTest(Protocol):
    """Answers whether drafts are interesting, that is, whether they show the failure."""

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """Return the first interesting draft in the order given, None when there is none."""

    def is_valid(self, draft: Draft) -> bool:
        """Return whether the draft is a valid, new program. This compiles nothing."""


Pass = Callable[[Draft, InterestingnessTest], Draft]  # makes a draft smaller; returns the draft itself when it finds nothing


class Frontend(ABC):
    """Reads, checks and writes one form of program."""

    passes: Sequence[Pass] = ()
    """Run in this order until none of them makes the program smaller."""
    final_passes: Sequence[Pass] = ()
    """Run once at the end, because they remove nothing themselves."""

    @abstractmethod
    def open(self, path: Path) -> Iterable[Document]:
        """Yield the programs to start from, the cheapest first, each read on demand; nothing for an unreadable file."""

    def approach(self, line: int | None) -> Pass:  # noqa: ARG002 - most frontends do not look at the line
        """Return the pass that runs before all others. line: where the compiler's diagnostic points in the file."""
        return self.passes[0]

    @abstractmethod
    def valid(self, document: Document) -> bytes | None:
        """Return the canonical content, equal for programs that differ only in names; None for an invalid program."""

    def operation_at(self, document: Document, line: int) -> str | None:  # noqa: ARG002 - most forms have no operations
        """Return what kind of operation stands on a line of a document's content; None where that is not known."""
        return None

    def entry(self, document: Document, name: str | None) -> Entry | None:  # noqa: ARG002 - most forms are not run
        """Return the function of this name, else the only one that is public; None when there is none, or several."""
        return None

    def is_defined(self, document: Document) -> bool:  # noqa: ARG002 - most forms have no such values
        """Return whether no result depends on values that were never set."""
        return True

    def constant(self, origin: Origin) -> Any | None:  # noqa: ARG002 - most forms have no such constants
        """Return the elements of a value that the program holds; None for one that must be computed."""
        return None

    def returning(self, wanted: Sequence[Origin], *, more: bool) -> tuple[Document, Sequence[Origin]] | None:  # noqa: ARG002
        """Return a program that computes values of one document, and these in the order of its results.

        more: return all values of that document. None when there is no such program, or it would return too much.
        """
        return None

    def written(self, document: Document) -> Sequence[bytes]:
        """Return the ways to write the program, the most readable first."""
        return [document.content]

    def close(self) -> None:  # noqa: B027 - most frontends hold nothing
        """Release processes and files."""


def minimise(
    draft: Draft,
    items: Sequence[T],
    build: Callable[[Sequence[T]], Draft | None],
    test: InterestingnessTest,
    *,
    whole: bool = True,
    kind_of: Callable[[T], Hashable] | None = None,
) -> Draft:
    """Drop items until the rest is one-minimal: all of them, then halves, quarters, ... single ones (ddmin's complements).

    build: makes the draft that keeps the given items; None when there is no such draft. whole: start by dropping all items
    at once. kind_of: groups equal items. Whole groups are dropped first, and after three chunks of equal kinds could not be
    dropped the remaining ones are skipped: a chain that must be long has hundreds of equal links.

    Returns the draft of the items left, the draft itself when nothing was dropped.
    """

    def interesting(kept: Sequence[T]) -> Draft | None:
        smaller = build(kept)
        return test.first([smaller]) if smaller is not None else None

    left = list(items)
    if whole and left and (smaller := interesting([])) is not None:
        return smaller
    if kind_of:
        for kind in [kind for kind, count in Counter(map(kind_of, left)).items() if count > 1]:
            kept = [item for item in left if kind_of(item) != kind]
            if kept and (smaller := interesting(kept)) is not None:
                left, draft = kept, smaller
    chunk = (len(left) + 1) // 2
    while left:
        before = len(left)
        left, smaller = _drop_chunks(left, chunk, build, test, kind_of)
        draft = smaller or draft
        if chunk == 1 and len(left) == before:
            break
        chunk = max(1, min(chunk // 2, len(left)))
    return draft


def _drop_chunks(
    left: list[T],
    chunk: int,
    build: Callable[[Sequence[T]], Draft | None],
    test: InterestingnessTest,
    kind_of: Callable[[T], Hashable] | None,
) -> tuple[list[T], Draft | None]:
    """Go along the items once and drop each chunk that can be dropped."""
    best, position = None, 0
    refused: Counter[Hashable] = Counter()
    while position < len(left):
        tried: list[tuple[Draft, int, Hashable]] = []

        def drafts(
            left: list[T] = left, position: int = position, tried: list[tuple[Draft, int, Hashable]] = tried
        ) -> Iterator[Draft]:
            for start in range(position, len(left), chunk):
                kinds = tuple(map(kind_of, left[start : start + chunk])) if kind_of else None
                if kind_of and refused[kinds] >= _ENOUGH:
                    continue
                draft = build([*left[:start], *left[start + chunk :]])
                if draft is not None:
                    refused[kinds] += 1  # until the answer is known
                    tried.append((draft, start, kinds))
                    yield draft

        found = test.first(drafts())
        if found is None:
            break
        position, kinds = next((start, kinds) for draft, start, kinds in tried if draft is found)
        refused[kinds] = 0
        left, best = [*left[:position], *left[position + chunk :]], found
    return left, best


def repeatedly(changes: Callable[[Draft], Iterable[Draft]]) -> Pass:
    """Make a pass that applies the first interesting change until no change is interesting."""

    @wraps(changes)
    def run(draft: Draft, test: InterestingnessTest) -> Draft:
        while (found := test.first(changes(draft))) is not None:
            draft = found
        return draft

    return run


def greedily(changes: Callable[[Draft], Iterable[Draft]]) -> Pass:
    """Make a pass that applies one interesting change after another until none is left.

    changes: yields all changed drafts in a stable order, so that after a change the search continues at its position.
    """

    @wraps(changes)
    def run(draft: Draft, test: InterestingnessTest) -> Draft:
        position = 0
        while True:
            offered: list[tuple[int, Draft]] = []

            def drafts(base: Draft, start: int, offered: list[tuple[int, Draft]]) -> Iterator[Draft]:
                for number, changed in enumerate(changes(base)):
                    if number >= start and (changed.document.content, changed.case) != (base.document.content, base.case):
                        offered.append((number, changed))
                        yield changed

            found = test.first(drafts(draft, position, offered))
            if found is None:
                return draft
            draft, position = found, next(number for number, changed in offered if changed is found)

    return run
