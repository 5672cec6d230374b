"""The text of a new recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from triage.recipes.family import RecipeFamilies, RecipeFamily, RecipeStart
from triage.recipes.loader import SECTIONS, check_recipe
from triage.recipes.values import yaml_text


def new_recipe(families: RecipeFamilies, title: str, input_path: str, start: RecipeStart) -> str:
    """The YAML text of a recipe, with comments on further keys. title: the name is made from it; input_path: relative to
    the recipe.

    Raises:
        BadFiles: a value is not allowed in a recipe. Whether the input exists is not checked.
    """
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:100].strip("-") or start.family
    target, family = start.target, families[start.family]
    fields = {"backend": target.backend, "chip": target.chip, "devices": target.devices} if target else {}
    where = f" on {target.chip or target.backend}" if target else ""
    lines = [
        *(f"# {line}" for note in start.notes for line in note.splitlines()),
        f"name: {yaml_text(name)}",
        f"summary: {yaml_text(f'{name}{where}')}",
        f"compiler: {start.family}",
        f"input: {yaml_text(input_path)}",
        *start.keys,
    ]
    if target:
        lines.append(f"target: {yaml_text({key: value for key, value in fields.items() if value is not None})}")
    if start.flags:
        lines += ["flags:", *(f"  - {json.dumps(flag, ensure_ascii=False)}" for flag in start.flags)]
    if start.env:
        lines += ["env:", *(f"  {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in start.env.items())]
    if start.phase is not None:
        lines.append(f"phase: {yaml_text(start.phase)}")
    lines.append("limits: {timeout: 120s, memory: 8GiB}")
    lines += ["expect:", *(f"  - {{failure: {failure}}}" for failure in start.expect)] if start.expect else []
    text = "\n".join([*lines, *(f"\n{comment}" for comment in _comments(family, start)), ""])
    check_recipe(families, text)
    return text


def with_questions(text: str, names: Sequence[str]) -> str:
    """Write `?` for the values of keys that are not known."""
    for name in names:
        text = re.sub(rf"(?m)^  {name}: (.*?)(?:  #.*)?$", rf'  {name}: "?"  # not known; \1 does not compile', text)
    return text


def _comments(family: RecipeFamily, start: RecipeStart) -> list[str]:
    """Comments on the keys that the recipe does not have yet."""
    key, values = family.axis
    places = (*SECTIONS, *family.sections) if family.flags else (*family.sections, "target")
    return [
        *([_FLAGS.format(flag=family.flag)] if family.flags and not start.flags else []),
        *([_PHASE.format(phase=family.phases[len(family.phases) // 2])] if family.phases and start.phase is None else []),
        _MATRIX.format(key=key, values=values, places=", ".join(places)),
        *([] if start.expect else [_EXPECT]),
    ]


_FLAGS = """\
# Compiler flags; the second form only for versions from `since` until before `until`.
# flags:
#   - "{flag}"
#   - {{flag: "{flag}", since: "3.5.0", until: "3.9.0"}}"""
_PHASE = """\
# Stop after this phase instead of compiling to the end.
# phase: {phase}"""
_MATRIX = """\
# One case for each value; ${{{key}}} is replaced in {places}.
# matrix: {{{key}: [{values}]}}"""
_EXPECT = """\
# Known failures, so that a nightly reports only changes. until: the first version without it.
# expect:
#   - {failure: shared-memory-overflow, since: "3.1.0", until: "3.8.0", issue: "owner/repo#123"}"""
