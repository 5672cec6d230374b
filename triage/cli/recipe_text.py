"""Start a recipe from an issue, a gist or a log: its program, its command line, and what it reports."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import typer

from triage.classify import classify_log, load_rules
from triage.cli.context import failure_names
from triage.cli.screen import print_stderr
from triage.compilers.base import Compiler
from triage.compilers.parts import PastedText, TextExcerpt
from triage.compilers.registry import DEFAULT_FAMILY, family_named, recipe_starters
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart
from triage.report.elements import plural
from triage.toolchains.home import temporary_folder

_SHOWN = 160  # characters of a choice
_MOST_VERSIONS = 3
_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?![\w.]*\d)"
_NIGHTLY = re.compile(r"rc(\d{4})(\d\d)(\d\d)$")


@dataclass(frozen=True, slots=True)
class ReportedStart:
    """A start, and the revisions that the text reports about."""

    start: RecipeStart
    toolchains: tuple[str, ...]


def start_from_text(
    recipe: Path,
    source: Path,
    chosen: tuple[int | None, int | None],
    program: Path | None,
    backend: str | None,
    chip: str | None,
    kernel: str | None,
) -> ReportedStart:
    """Start a recipe from a program and a command line of a text.

    The program is written next to `recipe`. `chosen` holds the numbers of the program and of the command line to use;
    `program` is a file to use instead of a program of the text.

    Raises:
        BadInput: The text has no program, several, or one that was cut.
    """
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror}") from error
    family, pasted = _read(text)
    block = None if program else _choose("program", pasted.programs, chosen[0], "--block")
    if program is None and block is None:
        raise BadInput(f"{source} contains no program; name it with --input")
    if block and block.lacks:
        raise BadInput(f"the program in line {block.line} of {source} was cut: {block.lacks}. Name a whole one with --input")
    call = _choose("command line", pasted.commands, chosen[1], "--line")
    if call:
        file = program or recipe.with_suffix(".mlir")
        start = next(filter(None, (each.from_command([call.text], backend, file) for each in recipe_starters().values())))
        if block and start.family != DEFAULT_FAMILY and "define " in block.text:
            start = replace(start, input=recipe.with_suffix(".ll"))
        start = replace(start, copied=block.text if block else None)
    elif program:
        start = start_from_file(recipe, program, backend, chip, kernel)
    elif family.name != DEFAULT_FAMILY and block:
        start = _start_from_block(family, recipe, block, backend, chip, kernel)
    elif backend is None:
        raise BadInput(f"{source} contains no command line of a compiler; name what to compile for with --backend")
    else:
        start = RecipeStart(DEFAULT_FAMILY, recipe.with_suffix(".mlir"), Target(backend), copied=block.text if block else None)
    versions = _versions(text, family)
    failure = _reported_failure(text)
    notes = [*start.notes, *(f"The text also runs: {line}" for line in pasted.runs)]
    if versions:
        notes.append(f"Reported for {', '.join(versions)}.")
    if failure:
        notes.append(f"Reported failure: {failure}. `triage run` says xfail when it reproduces.")
    return ReportedStart(replace(start, notes=tuple(notes), expect=(failure,) if failure else ()), versions)


def start_from_file(recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None) -> RecipeStart:
    """Start a recipe from an input file, by the first family that understands it."""
    check_file(source)
    starts = (each.from_source(recipe, source, backend, chip, kernel) for each in recipe_starters().values())
    start = next(filter(None, starts), None)
    if start is None:
        raise BadInput(f"{source} has no kernel; --kernel names one in a Python file")
    return start


def check_file(path: Path) -> None:
    """Raise BadInput if the path is not a file."""
    try:
        is_there = path.is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise BadInput(f"there is no input {path}")


def _read(text: str) -> tuple[Compiler, PastedText]:
    """The family that the text is about: the default one if its compiler is called, else the first that finds anything."""
    found = {name: starter.read_text(text) for name, starter in recipe_starters().items()}
    if not found[DEFAULT_FAMILY].commands:
        for name, pasted in found.items():
            if pasted.programs or pasted.commands:
                return family_named(name), pasted
    return family_named(DEFAULT_FAMILY), found[DEFAULT_FAMILY]


def _start_from_block(
    family: Compiler, recipe: Path, block: TextExcerpt, backend: str | None, chip: str | None, kernel: str | None
) -> RecipeStart:
    place = recipe.with_suffix(".py")
    with temporary_folder() as folder:
        file = Path(folder) / place.name
        file.write_text(block.text, "utf-8")
        start = recipe_starters()[family.name].from_source(recipe, file, backend, chip, kernel)
        if start is None:
            raise BadInput(f"the program in line {block.line} has no kernel; name one with --kernel")
    return start if start.copied is not None else replace(start, input=place, copied=block.text)


def _versions(text: str, family: Compiler) -> tuple[str, ...]:
    """The revisions of the compiler that a text names, those under the issue form's heading first."""
    heading = re.escape(family.issue_form.version)
    section = re.search(rf"(?im)^#+ *{heading} *\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE | re.IGNORECASE)
    alone = re.findall(rf"(?m)^[ \t]*{_VERSION}[ \t]*$", section[1]) if section else []
    names = "|".join(re.escape(name) for name in (family.distribution, *family.recipe.nicknames, family.name) if name)
    named = re.findall(rf"(?i)\b(?:{names})\b[^\n\d]{{0,40}}?(?<![\d.]){_VERSION}", text)
    known = [_NIGHTLY.search(version) for version in (*alone, *named)]
    revs = [
        f"nightly:{match[1]}-{match[2]}-{match[3]}" if match else version
        for match, version in zip(known, (*alone, *named), strict=True)
    ]
    return tuple(dict.fromkeys(revs))[:_MOST_VERSIONS]


def _reported_failure(text: str) -> str | None:
    """The class of the first failure in the text."""
    failures = classify_log(BytesIO(text.encode("utf-8", "replace")), load_rules())
    return next((failure.failure_class for failure in failures if failure.failure_class in failure_names()), None)


def _choose(noun: str, excerpts: Sequence[TextExcerpt], number: int | None, option: str) -> TextExcerpt | None:
    """The excerpt that is meant. Asks on a terminal.

    Raises:
        BadInput: There are several and nobody can be asked, or there is no such number.
    """
    if number is not None and number > len(excerpts):
        raise BadInput(f"there is no {noun} {number}: the text has {plural(len(excerpts), noun)}")
    if len(excerpts) < 2 or number is not None:
        return excerpts[(number or 1) - 1] if excerpts else None
    choices = "\n".join(_choices(excerpts))
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(f"the text has {plural(len(excerpts), noun)}; choose one with {option} N:\n{choices}")
    print_stderr(choices)
    answer: int = typer.prompt(f"Which {noun}?", type=int, default=1, err=True)
    return _choose(noun, excerpts, max(1, answer), option)


def _choices(excerpts: Sequence[TextExcerpt]) -> Iterator[str]:
    for index, excerpt in enumerate(excerpts, 1):
        yield f"  {index}  line {excerpt.line}: {' '.join(excerpt.text.split())[:_SHOWN]}"
