"""Write docs/classes.md: the failure classes, from their rules. Run with `python -m tests.docs.classes`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from triage.classify import packaged_rules
from triage.classify.rule import Advice

PAGE = Path(__file__).parents[2] / "docs" / "classes.md"
HEAD = """# Failure classes

What `triage` can tell apart, by family. This page is made from `triage/classify/rules/` by `python -m tests.docs.classes`.

A failure's **signature** is its class and what identifies it: an operation, a device, an assertion, the top frames of a crash.
Names of values, numbers, paths, addresses and changes of wording between releases are no part of it. A **family** joins the
classes that one root cause wanders through between releases; `triage bisect --match family` follows it.

Your own classes: `triage classify --rules mine.yaml` reads a file in the format of the packaged ones.
"""


def classes_page() -> str:
    """The page's text."""
    parts = [HEAD]
    rules = sorted(packaged_rules(), key=lambda rule: (rule.family, rule.name))
    for family, members in groupby(rules, key=lambda rule: rule.family):
        parts.append(f"\n## {family}\n")
        for rule in members:
            parts.append(f"\n**`{rule.name}`**: {rule.explanation}")
            if rule.says_nothing:
                parts.append(f" A version that fails so is untestable ({rule.says_nothing}).")
            parts.append("\n" + "".join(f"\n- {_words(remedy)}" for remedy in rule.remedies) + "\n" if rule.remedies else "\n")
    return "".join(parts)


def _words(remedy: Advice) -> str:
    whose = {"iree": "IREE: ", "triton": "Triton: "}
    return f"{whose.get(remedy.compiler or '', '')}{remedy.text}"


if __name__ == "__main__":
    PAGE.write_text(classes_page())
