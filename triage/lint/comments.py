"""`// triage: ignore` on a line of the input, or on the line above: what is found there is not told."""

from __future__ import annotations

import re
from pathlib import Path

from triage.lint.finding import LintFinding

_COMMENT = re.compile(rb"(^\s*)?//\s*triage:\s*ignore(?:\[([\w\s,-]*)\])?\s*$")
ALL = frozenset({"*"})


class Comments:
    """The comments of one source. A comment behind code is about its line; one alone is about the line below."""

    def __init__(self, source: Path) -> None:
        self._silent: dict[int, frozenset[str]] = {}
        if source.suffix == ".mlirbc":
            return
        with source.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if b"triage:" in line and (found := _COMMENT.search(line.rstrip())):
                    alone = not line[: found.start()].strip()
                    self._silent[number + alone] = self._silent.get(number + alone, frozenset()) | _rules(found[2])

    def silence(self, finding: LintFinding) -> bool:
        """Whether a finding of this source is silenced."""
        rules = self._silent.get(finding.place.line, frozenset()) if finding.place else frozenset()
        return finding.rule in rules or bool(rules & ALL)


def _rules(text: bytes | None) -> frozenset[str]:
    if text is None:
        return ALL
    return frozenset(name for name in (part.strip() for part in text.decode().split(",")) if name)
