"""The report of a command whose answer is a value and a few lines: `triage toolchains`, `recipe`, `doctor` and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triage.report.document import Block, Document
from triage.report.registry import DocumentReport


@dataclass(frozen=True)
class Answer(DocumentReport):
    """A value with the blocks that show it."""

    result: Any
    parts: Sequence[Block]
    title: str = "triage"

    def document(self) -> Document:
        return Document(self.title, self.parts)
