"""Start a recipe from an input file, a command line, or a text with both: an issue, a
gist or a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from triage.classify import classify_log, packaged_rules
from triage.classify.log import decoded
from triage.compilers.pasted_text import (
    PastedContent,
    RecipeRequest,
    calls_in,
    names_passes,
    pasted_content,
    refuse_harmful_flags,
)
from triage.compilers.registry import failure_names, family_named, recipe_starters
from triage.model.errors import BadInput
from triage.recipes.recipe import RecipeStart

_VERSION = r"\d+\.\d+(?:\.\d+)?(?:rc\d+)?"
# `0.9.2 and 0.10.0`, `3.1.0 -> 3.2.0`
_VERSIONS = (
    rf"v?({_VERSION}(?:(?:[ `(),/&>→–-]|and|or|to|until){{1,8}}{_VERSION})*)"
    r"(?![\w.]*\d)"
)
_NIGHTLY = re.compile(r".*rc(\d{4})(\d\d)(\d\d)")
# The only words that may stand between the name of a compiler and its version. After
# others, the version is that of a model or of another program.
_BEFORE_VERSION = (
    r"(?:[^\w\n]|(?<![a-z])(?:versions?|compiler|release|runtime|nightly|package|is|at)"
    r"(?![a-z])){1,40}?"
)
_RELEASE = re.compile(
    r"(?im)(?:^[^\w\n]*version(?: information)?|\b(?:the|this|my) "
    r"(?:compiler|version|release)(?: is)?"
    r"|\b(?:on|since|with|in|from|to|between)(?: the)?(?: version| release)?)[\s:]+"
    rf"(?=v?\d+\.\d+\.\d){_VERSIONS}"
)
_WRONG_RESULT = re.compile(
    r"(?i)\b(?:wrong|incorrect|different|inconsistent|unexpected)(?: \w+)? "
    r"(?:results?|outputs?|values?|answers?|numbers?)\b"
)
_DATED = re.compile(r"(?i)\bnightly\b[^\n\d]{0,20}\b(20\d\d)-?(\d\d)-?(\d\d)\b")
_MOST_REVISIONS = 3  # of those that a text names
_FIRST_BYTES = 1 << 16


class NoProgramError(BadInput):
    """A text contains nothing that can be run as it says."""

    text: str = ""
    """The text, if it is known."""


def start_from_command(request: RecipeRequest, line: str) -> RecipeStart:
    """Start from the user's own command line of a compiler."""
    for starter in recipe_starters().values():
        for call in calls_in(line, starter.tools):
            start = starter.from_call(call, request.backend, request.source)
            _check_file(start.input)
            return replace(start, left_out=(*call.variables, *start.left_out))
    raise BadInput(f"{line!r} is not a file, and it calls no known compiler")


def start_from_file(request: RecipeRequest, source: Path) -> RecipeStart:
    """Start from an input file, with the first family that compiles such files."""
    _check_file(source)
    families = list(recipe_starters())
    program = ""
    if source.suffix == ".py":
        program = decoded(source.read_bytes())
        if request.packages:  # whatever the script is about, it runs
            families = ["command"]
    return _start_from_program(request, families, source, program)


def _start_from_program(
    request: RecipeRequest, families: Iterable[str], path: Path, program: str
) -> RecipeStart:
    starters = recipe_starters()
    for family in families:
        backend = request.backend
        if backend:
            backend = family_named(family).recipe.aliases.get(backend, backend)
        family_request = replace(request, backend=backend)
        start = starters[family].from_program(family_request, path, program)
        if start is not None:
            return start
    if request.kernel:
        raise NoProgramError(f"{path} has no kernel {request.kernel}")
    raise NoProgramError(f"{path.name} cannot be compiled for {request.backend}")


def start_from_text(request: RecipeRequest, name: str) -> RecipeStart:
    """Start from the first program and the first readable command line in the text of a
    request, which messages call `name`. Raises NoProgramError if the text has no
    complete program.
    """
    content = pasted_content(request, recipe_starters())
    if not content.programs:
        raise NoProgramError(f"{name} contains no complete program")
    program = content.programs[0]
    path = request.path.with_suffix(program.suffix)
    if content.calls:
        start = _start_from_calls(request, content, path)
    else:
        start = _start_from_program(request, [content.family], path, program.text)
    notes = []
    if start.refused:
        notes = [f"Left out of the text: {' '.join(start.refused)}."]
    data = request.text.encode("utf-8", "replace")
    log = classify_log(BytesIO(data), packaged_rules())
    classes = [failure.failure_class for failure in log.failures]
    if _WRONG_RESULT.search(request.text):
        classes.append("wrong-result")
    return replace(
        start,
        copied=start.copied or program.text,
        notes=notes,
        expect=list(filter(failure_names().__contains__, classes))[:1],
        reported=reported_revisions(request.text, content.family),
    )


def _start_from_calls(
    request: RecipeRequest, content: PastedContent, path: Path
) -> RecipeStart:
    """Start from the first call that can be read, without what could do harm."""
    starters = recipe_starters()
    problems = []
    for call in content.calls:
        files = [word for word in call.words if word.startswith("@")]
        words = tuple(word for word in call.words if word not in files)
        call = replace(call, words=words)
        try:
            start = starters[content.family].from_call(call, request.backend, path)
        except BadInput as error:
            problems.append(error)
            continue
        start = refuse_harmful_flags(start)
        lost = [flag for flag in start.refused if names_passes(flag)]
        if lost and start.target is None:
            raise NoProgramError(
                f"{call.tool} would run without {' '.join(lost)}, which a text may not "
                "ask for; check it, and pass the command line after --"
            )
        return replace(start, refused=(*call.variables, *files, *start.refused))
    raise problems[0]


def _check_file(path: Path) -> None:
    if not os.path.isfile(path):  # noqa: PTH113 - false for a name that is too long
        raise BadInput(f"there is no input {path}")
    with path.open("rb") as file:
        if not file.read(_FIRST_BYTES).strip():
            raise BadInput(f"the input {path} is empty")


def reported_revisions(text: str, family: str) -> list[str]:
    """Return the first three different revisions of a family that a text names: the
    versions that follow the compiler's name, then those that follow a word such as
    `since`, then nightlies.
    """
    compiler = family_named(family)
    names = (compiler.distribution, *compiler.recipe.nicknames, family)
    any_name = "|".join(map(re.escape, filter(None, names)))
    named = re.compile(rf"(?i)\b(?:{any_name})\b{_BEFORE_VERSION}(?<![\d.]){_VERSIONS}")
    matches = [match[1] for match in (*named.finditer(text), *_RELEASE.finditer(text))]
    versions = re.findall(_VERSION, " ".join(matches))
    # A version such as 3.3.0rc20250201 is a nightly.
    revisions = [_NIGHTLY.sub(r"nightly:\1-\2-\3", version) for version in versions]
    revisions += [f"nightly:{'-'.join(date)}" for date in _DATED.findall(text)]
    return list(dict.fromkeys(revisions))[:_MOST_REVISIONS]
