"""The IR after a diverging pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from triage.mlir.ir_reader import ir_lines
from triage.model.execution import PassName, dumped_pass

_MAX_LINES = 3000
_MAX_WIDTH = 600  # characters of a line
_NAME = re.compile(r"%[\w$.#-]+|@\w+|#(?:map|set)\d*\b")


class DumpText:
    """The text of one dump in a compiler's output: the `occurrence`-th of a pass."""

    def __init__(self, after: PassName, occurrence: int) -> None:
        self._after, self._occurrence = after.key, occurrence
        self._is_inside = False
        self._cutter = ir_lines()
        self.lines: list[str] = []

    def feed(self, data: bytes) -> None:
        """Take the next piece of the output."""
        for raw in self._cutter.feed(data):
            line = raw.decode("utf-8", "replace")
            header = dumped_pass(line)
            if header is not None:
                is_of_pass = header[0].key == self._after
                self._occurrence -= is_of_pass
                self._is_inside = is_of_pass and self._occurrence == 0
            elif self._is_inside and line.strip() and len(self.lines) < _MAX_LINES:
                self.lines.append(line[:_MAX_WIDTH])


def diff(good: Sequence[str], bad: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a unified diff. Lines that differ only in the names of values
    and symbols count as equal.
    """
    old, new = (
        [_NAME.sub("%", line).strip() for line in lines] for lines in (good, bad)
    )
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes():
        yield f"@@ line {group[0][1] + 1} @@"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (f"  {line}" for line in good[i:i_end])
            else:
                yield from (f"- {line}" for line in good[i:i_end])
                yield from (f"+ {line}" for line in bad[j:j_end])
