"""The table of rules in docs/linting.md. Run with `python -m tests.docs.linting` to write it anew."""

from __future__ import annotations

import re
from pathlib import Path

from triage.lint.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "linting.md"
TABLE = re.compile(r"\| rule \|.*?(?=\n\n)", re.DOTALL)


def rules_table() -> str:
    """A row for each rule, with the worst it finds."""
    rows = [f"| `{rule.name}` | {rule.severity} | {rule.summary} |" for rule in RULES]
    return "\n".join(["| rule | severity | what it finds |", "|---|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: rules_table(), PAGE.read_text()))
