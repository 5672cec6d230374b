"""Any text: blocks by indentation first, then lines; of printed MLIR operations with what uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.model.case import InputKind
from triage.reduce.draft import Draft, Program
from triage.reduce.fixpoint import PassProgress
from triage.reduce.frontends.case_settings import drop_flags, drop_options, fewer_devices
from triage.reduce.frontends.text import ssa
from triage.reduce.frontends.text.document import Span, TextDocument, blocks
from triage.reduce.search import InterestingnessTest, minimise

_SSA = ("ttir", "ttgir", "mlir")
_DEEPEST = 6  # levels of indentation; below them single lines are dropped


class TextFormat:
    """Lines of text."""

    def __init__(self, kind: InputKind, suffix: str) -> None:
        self._kind, self._suffix = kind, suffix
        self._has_values = suffix in _SSA
        self._names_known = False

    @property
    def steps(self) -> Sequence[PassProgress]:
        values = (
            PassProgress("operations", ssa.drop_operations),
            PassProgress("links of chains", ssa.bypass_operations),
            PassProgress("arguments", ssa.drop_arguments),
        )
        return (*(values if self._has_values else ()), PassProgress("blocks", drop_blocks), PassProgress("lines", drop_lines))

    @property
    def finishing(self) -> Sequence[PassProgress]:
        numbers = (PassProgress("numbers", ssa.shrink_numbers),) if self._has_values else ()
        return (
            *numbers,
            PassProgress("devices", fewer_devices),
            PassProgress("flags", drop_flags),
            PassProgress("options", drop_options),
        )

    def open(self, path: Path) -> Sequence[Program]:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        self._names_known = self._has_values and not ssa.undefined(ssa.without_locations(lines))
        plain = [ssa.without_locations(lines)] if self._has_values and "loc(" in text else []
        return [TextDocument(one, self._kind, self._suffix) for one in (*plain, lines)]

    def approach(self, line: int | None) -> PassProgress:  # noqa: ARG002 - blocks around a line say nothing of what they need
        return PassProgress("operations", ssa.drop_operations) if self._has_values else PassProgress("blocks", drop_blocks)

    def valid(self, document: Program) -> bytes | None:
        """Of most text nothing is known; a value that is used is made before."""
        assert isinstance(document, TextDocument)
        if self._names_known and ssa.undefined(document.lines):
            return None
        return document.content or None

    def written(self, document: Program) -> Sequence[bytes]:
        return [document.content]

    def close(self) -> None:
        pass


def drop_blocks(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop whole blocks, the outermost first."""
    for depth in range(_DEEPEST):
        document = _text(draft)
        spans = blocks(document.lines, depth)
        draft = _minimised(draft, hunt, spans) if len(spans) > 1 else draft
    return draft


def drop_lines(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop lines, halves of the text before single ones."""
    return _minimised(draft, hunt, [(at, at + 1) for at in range(_text(draft).size)])


def _minimised(draft: Draft, hunt: InterestingnessTest, spans: Sequence[Span]) -> Draft:
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
