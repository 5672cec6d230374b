"""Choose the flags of a pasted command line that can do no harm.

Somebody else wrote the text, and compilers have flags that start programs, load plugins
and write files. So a flag is passed on only if its name is in a list of flags that do
none of this, and its value cannot be the name of a file.
"""

from __future__ import annotations

import re
from dataclasses import replace

from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.recipe import RecipeStart

_HARMLESS_VALUE = re.compile(r"(?!.*\.\.)[\w.,:;+=\[\]-]*")  # no path, no `@FILE`
_PIPELINES = frozenset({"pass-pipeline", "iree-preprocessing-pass-pipeline", "passes"})
_PIPELINE = re.compile(r"(?!.*\.\.)[\w.,:;+=(){}<>\s-]*")
_PASS_OPTIONS = re.compile(r"\{([^{}]*)\}|<([^<>]*)>")
_ANCHORS = re.compile(
    r"any|module|cgscc|function|loop|loop-mssa|machine-function|default|thinlto|lto"
    r"|\w+\.[\w.]+"
)
# Words in names of pass options whose value is a file or a program.
_NAMES_A_FILE = re.compile(
    r"path|file|dir|command|cmd|exec|plugin|dump|output|log|tool|lib|script|opts"
    r"|module|spec|prefix|substitut"
)


def keep_harmless(start: RecipeStart, names: frozenset[str]) -> RecipeStart:
    """Move the flags that might do harm to the recipe's `refused`.

    `names` are the names of harmless flags. Raises BadInput if the backend or the chip
    is not a word.
    """
    target = start.target or Target("host")
    for word in (target.backend, target.chip or ""):
        if not _HARMLESS_VALUE.fullmatch(word):
            raise BadInput(
                f"{word!r} names no target; name it with --backend and --chip"
            )
    flags: list[str] = []
    refused: list[str] = []
    for flag in start.flags:
        chosen = flags if _is_harmless(flag, names) else refused
        chosen.append(flag)
    return replace(start, flags=flags, refused=refused)


def names_passes(flag: str) -> bool:
    """Return whether a flag of an `opt` tool may be a pass, or names passes."""
    name, mark, _ = flag.lstrip("-").partition("=")
    return not mark or name in _PIPELINES


def _is_harmless(flag: str, names: frozenset[str]) -> bool:
    name, _, value = flag.lstrip("-").partition("=")
    if name not in names:
        return False
    if name not in _PIPELINES:
        is_plain = _HARMLESS_VALUE.fullmatch(value) is not None
        return is_plain and ("=" not in value or not _assigns_a_file(value))
    # the passes, and the assignments in their options
    parts = re.findall(r"[\w.-]+", _PASS_OPTIONS.sub(" ", value))
    for braces, angles in _PASS_OPTIONS.findall(value):
        parts += (braces or angles).split()
    if any("=" in part and _assigns_a_file(part) for part in parts):
        return False
    named = [part for part in parts if "=" not in part and not _ANCHORS.fullmatch(part)]
    return names.issuperset(named) and _PIPELINE.fullmatch(value) is not None


def _assigns_a_file(assignment: str) -> bool:
    option, _, _ = assignment.partition("=")
    return _NAMES_A_FILE.search(option) is not None
