"""Start a recipe from an input file, a command line, or a text with both: an issue, a
gist or a log.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from triage.classify import classify_log, packaged_rules
from triage.classify.log import decoded
from triage.compilers.base import Compiler
from triage.compilers.pasted_text import (
    Found,
    PastedProgram,
    RecipeRequest,
    calls_in,
    found_in,
    keep_harmless,
    names_passes,
    python_in,
)
from triage.compilers.registry import family_named, recipe_starters
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
_DATED = re.compile(r"(?i)\bnightly\b[^\n\d]{0,20}\b(20\d\d)-?(\d\d)-?(\d\d)\b")
_ANY = re.compile("")
_MOST_REVISIONS = 3  # of those that a text names
_FIRST_BYTES = 1 << 16


class NoProgramError(BadInput):
    """A text contains nothing that can be run as it says."""

    text: str = ""
    """The text, if it is known."""


def start_from_command(request: RecipeRequest, words: Sequence[str]) -> RecipeStart:
    """Start from the user's own command line of a compiler."""
    line = words[0]
    if len(words) > 1:
        line = shlex.join(words)
    for starter in recipe_starters().values():
        for call in calls_in(line, starter.tools):
            start = starter.from_call(call, request.backend, request.source)
            _check_file(start.input)
            return replace(start, left_out=(*call.variables, *start.left_out))
    raise BadInput(
        f"no compiler family reads command lines of {words[0]}; name the model with "
        "--input"
    )


def start_from_file(request: RecipeRequest, source: Path) -> RecipeStart:
    """Start from an input file, with the first family that compiles such files."""
    _check_file(source)
    request, text = replace(request, source=source), ""
    if source.suffix == ".py":
        text = decoded(source.read_bytes())
    starters = recipe_starters()
    if request.packages and text:  # whatever the script is about, it runs
        starters = {"command": starters["command"]}
    for starter in starters.values():
        start = starter.from_program(request, source, text)
        if start is not None:
            return start
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"{source}:{error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):  # it is nested too deeply
        pass
    raise BadInput(f"{source} has no kernel {request.kernel}")


def start_from_text(request: RecipeRequest, text: str, name: str) -> RecipeStart:
    """Start from the first program and the first readable command line in a text, which
    messages call `name`. Raises NoProgramError if the text has no complete program.
    """
    found = found_in(text, recipe_starters())
    if request.packages:
        scripts = [PastedProgram(code, ".py") for code in python_in(text, _ANY)]
        found = Found("command", scripts)
    path, copied = request.source, None
    if path is None:
        if not found.programs:
            raise NoProgramError(f"{name} contains no complete program")
        program = found.programs[0]
        path, copied = request.path.with_suffix(program.suffix), program.text
    if found.calls:
        start = _start_from_calls(request, found, path)
    elif copied is None:
        start = start_from_file(request, path)
    else:
        start = _start_from_pasted(request, found.family, path, copied, text)
    notes = list(start.notes)
    if start.refused:
        notes.append(f"Left out of the text: {' '.join(start.refused)}.")
    return replace(
        start,
        copied=start.copied or copied,
        notes=notes,
        expect=_reported_failures(text),
        reported=reported_revisions(text, found.family),
    )


def _start_from_calls(request: RecipeRequest, found: Found, path: Path) -> RecipeStart:
    """Start from the first call that can be read, without what could do harm."""
    starters = recipe_starters()
    lists = [starter.flags_allowed_in_texts for starter in starters.values()]
    problems = []
    for call in found.calls:
        files = [word for word in call.words if word.startswith("@")]
        words = tuple(word for word in call.words if word not in files)
        call = replace(call, words=words)
        try:
            start = starters[found.family].from_call(call, request.backend, path)
        except BadInput as error:
            problems.append(error)
            continue
        start = keep_harmless(start, frozenset().union(*lists))
        lost = [flag for flag in start.refused if names_passes(flag)]
        if lost and start.target is None:
            raise NoProgramError(
                f"{call.tool} would run without {' '.join(lost)}, which a text may not "
                "ask for; check it, and pass the command line after --"
            )
        return replace(start, refused=(*call.variables, *files, *start.refused))
    raise problems[0]


def _start_from_pasted(
    request: RecipeRequest, family: str, path: Path, program: str, text: str
) -> RecipeStart:
    """Start from a program without a command line. Its target is guessed from the text
    around it, and noted as assumed.
    """
    starter, assumed = recipe_starters()[family], list[str]()
    if not request.backend:
        target = starter.target_in(text)
        assumed = [name for name in (target.backend, target.chip) if name]
        request = replace(request, backend=target.backend, chip=target.chip)
    start = starter.from_program(request, path, program)
    if start is None:
        raise NoProgramError("the program has no kernel; name one with --input")
    return replace(start, assumed=(*assumed, *start.assumed))


def _check_file(path: Path) -> None:
    if not os.path.isfile(path):  # noqa: PTH113 - false for a name that is too long
        raise BadInput(f"there is no input {path}")
    with path.open("rb") as file:
        if not file.read(_FIRST_BYTES).strip():
            raise BadInput(f"the input {path} is empty")


def reported_revisions(text: str, family: str) -> list[str]:
    """Return the first three different revisions of a family that a text names."""
    versions = _versions_in(text, family_named(family))
    # A version such as 3.3.0rc20250201 is a nightly.
    revisions = (_NIGHTLY.sub(r"nightly:\1-\2-\3", version) for version in versions)
    return list(dict.fromkeys(revisions))[:_MOST_REVISIONS]


def _versions_in(text: str, family: Compiler) -> Iterator[str]:
    """Yield the versions that follow the compiler's name, then those that follow a word
    such as `since`, then nightlies.
    """
    names = (family.distribution, *family.recipe.nicknames, family.name)
    compiler = "|".join(re.escape(name) for name in names if name)
    named = re.compile(rf"(?i)\b(?:{compiler})\b{_BEFORE_VERSION}(?<![\d.]){_VERSIONS}")
    for pattern in (named, _RELEASE):
        for match in pattern.finditer(text):
            yield from re.findall(_VERSION, match[1])
    for date in _DATED.finditer(text):
        yield f"nightly:{date[1]}-{date[2]}-{date[3]}"


def _reported_failures(text: str) -> list[str]:
    """Return the first failure class in a text that a packaged rule defines."""
    rules = packaged_rules()
    classes = {rule.name for rule in rules}
    log = classify_log(BytesIO(text.encode("utf-8", "replace")), rules)
    reported = [failure.failure_class for failure in log.failures]
    return list(filter(classes.__contains__, reported))[:1]
