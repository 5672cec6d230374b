"""Any text: blocks by indentation first, then lines. What is valid only the compiler knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.draft import Document, Draft
from triage.reduce.loop import Step
from triage.reduce.plain.document import Span, TextDocument, blocks
from triage.reduce.search import Hunt, minimise
from triage.reduce.settings import drop_flags, fewer_devices

_DEEPEST = 6  # levels of indentation; below them single lines are dropped


class TextFormat:
    """Lines of text."""

    def __init__(self, kind: InputKind, suffix: str) -> None:
        self._kind, self._suffix = kind, suffix

    @property
    def steps(self) -> Sequence[Step]:
        return (
            Step("blocks", drop_blocks),
            Step("lines", drop_lines),
        )

    @property
    def finishing(self) -> Sequence[Step]:
        return (Step("devices", fewer_devices), Step("flags", drop_flags))

    def open(self, path: Path) -> Sequence[Document]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return [TextDocument([line.rstrip() for line in text.splitlines() if line.strip()], self._kind, self._suffix)]

    def approach(self, line: int | None) -> Step:  # noqa: ARG002 - blocks around a line say nothing of what they need
        return Step("blocks", drop_blocks)

    def valid(self, document: Document) -> bytes | None:
        """Of any text nothing is known."""
        return document.content or None

    def written(self, document: Document) -> Sequence[bytes]:
        return [document.content]

    def close(self) -> None:
        pass


def drop_blocks(draft: Draft, hunt: Hunt) -> Draft:
    """Drop whole blocks, the outermost first."""
    for depth in range(_DEEPEST):
        document = _text(draft)
        spans = blocks(document.lines, depth)
        draft = _minimised(draft, hunt, spans) if len(spans) > 1 else draft
    return draft


def drop_lines(draft: Draft, hunt: Hunt) -> Draft:
    """Drop lines, halves of the text before single ones."""
    return _minimised(draft, hunt, [(at, at + 1) for at in range(_text(draft).size)])


def _minimised(draft: Draft, hunt: Hunt, spans: Sequence[Span]) -> Draft:
    document = _text(draft)

    def build(kept: Sequence[Span]) -> Draft | None:
        gone = {at for first, end in set(spans) - set(kept) for at in range(first, end)}
        left = [line for at, line in enumerate(document.lines) if at not in gone]
        return Draft(TextDocument(left, document.kind, document.suffix), draft.case) if left else None

    _, found = minimise(spans, build, hunt, whole=False)
    return found or draft


def _text(draft: Draft) -> TextDocument:
    assert isinstance(draft.document, TextDocument)
    return draft.document
