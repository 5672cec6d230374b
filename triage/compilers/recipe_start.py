"""Start a recipe from an input file, a command line, or a text with both: an issue, a
gist or a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from triage.classify import classify_log, packaged_rules
from triage.compilers.parts import RecipeFromInput, ShellCommand, TextExcerpt
from triage.compilers.pasted_flags import keep_harmless
from triage.compilers.registry import (
    DEFAULT_FAMILY,
    family_named,
    recipe_families,
    recipe_starters,
)
from triage.compilers.response_files import with_files
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?![\w.]*\d)"
_NIGHTLY = re.compile(r".*rc(\d{4})(\d\d)(\d\d)")
_REPORTED = 3  # revisions of a text that count
_FIRST_BYTES = 1 << 16
_LONGEST = 160  # characters of an excerpt in a message
E = TypeVar("E", TextExcerpt, ShellCommand)


class NoProgramError(BadInput):
    """A text contains no whole program."""


@dataclass(frozen=True, slots=True)
class NewRecipe:
    """The recipe that a user asks for."""

    path: Path
    source: Path | None
    """The program, instead of one that a text or a command line names."""
    backend: str | None
    chip: str | None
    kernel: str | None

    def from_command(self, words: Sequence[str]) -> RecipeStart:
        """Start from the user's own command line of a compiler."""
        for starter in recipe_starters().values():
            call = starter.call_in(words)
            if call is not None:
                break
        else:
            raise BadInput(
                f"no compiler family reads command lines of {words[0]}; name the "
                "model with --input"
            )
        start = starter.from_call(with_files(call), self.backend, self.source)
        _check_file(start.input)
        # a compiler reads a file of any name
        if recipe_families()[start.family].kind_of(start.input.suffix) is None:
            return replace(
                start,
                input=self.path.with_suffix(".mlir"),
                copied=start.input.read_text("utf-8", "replace"),
            )
        return start

    def from_file(self, source: Path) -> RecipeStart:
        """Start from an input file, by the first family that understands it."""
        _check_file(source)
        start = _first(
            lambda starter: starter.from_source(
                self.path, source, self.backend, self.chip, self.kernel
            )
        )
        if start is None:
            raise BadInput(f"{source} has no kernel; name one as FILE.py:KERNEL")
        return start

    def from_text(
        self, text: str, name: str, block: int | None, line: int | None
    ) -> tuple[RecipeStart, list[str]]:
        """Start from a program and a command line of a text, and return the revisions
        that it reports about.

        `name` is what messages call the text, `block` and `line` are the numbers of the
        program and the command line to use. Raises BadInput if the text has no program,
        several, or one that was cut.
        """
        # The text is about the default family if its compiler is called, else about the
        # first that finds anything.
        starters = recipe_starters()
        found = {
            family: starter.read_text(text) for family, starter in starters.items()
        }
        others = (
            family
            for family, pasted in found.items()
            if pasted.programs or pasted.commands
        )
        if found[DEFAULT_FAMILY].commands:
            family = DEFAULT_FAMILY
        else:
            family = next(others, DEFAULT_FAMILY)
        pasted = found[family]
        if self.source:
            program = None
        else:
            program = _chosen("program", pasted.programs, block, "--block")
        if self.source is None and program is None:
            raise NoProgramError(f"{name} contains no program; name it with --input")
        if program and program.lacks:
            raise NoProgramError(
                f"the program in line {program.line} of {name} was cut: "
                f"{program.lacks}. Name a whole one with --input"
            )
        call = _chosen("command line", pasted.commands, line, "--line")
        place = self.path.with_suffix(".mlir")
        if call:
            start = starters[family].from_call(call, self.backend, self.source or place)
            responses = [word for word in call.words if word.startswith("@")]
            start = keep_harmless(
                start,
                frozenset().union(
                    *(starter.flags_of_texts for starter in starters.values())
                ),
            )
            start = replace(start, refused=(*responses, *start.refused))
            if program and start.family != DEFAULT_FAMILY and "define " in program.text:
                start = replace(start, input=self.path.with_suffix(".ll"))
            start = replace(start, copied=program.text if program else None)
        elif program is None:
            start = self.from_file(self.source or place)
        elif family != DEFAULT_FAMILY:
            start = self._from_kernel(family, program)
        elif self.backend is None:
            raise BadInput(
                f"{name} contains no command line of a compiler; name what to compile "
                "for with --backend"
            )
        else:
            start = RecipeStart(
                DEFAULT_FAMILY, place, Target(self.backend), copied=program.text
            )
        versions, rules = _versions(text, family), packaged_rules()
        log = classify_log(BytesIO(text.encode("utf-8", "replace")), rules)
        failures = [failure.failure_class for failure in log.failures]
        failure = [name for name in failures if name in {rule.name for rule in rules}][
            :1
        ]
        notes = list(start.notes)
        if start.refused:
            words = " ".join(start.refused)
            notes.append(
                f"Left out of the command: {words}. Keep it with --save FILE and add "
                "it there."
            )
        if versions:
            notes += [f"Reported for {', '.join(versions)}."]
        notes += [
            f"Reported failure: {name}. `triage run` says xfail when it reproduces."
            for name in failure
        ]
        return replace(start, notes=tuple(notes), expect=tuple(failure)), versions

    def _from_kernel(self, family: str, program: TextExcerpt) -> RecipeStart:
        start = recipe_starters()[family].from_pasted(
            self.path, program.text, self.backend, self.chip, self.kernel
        )
        if start is None:
            raise BadInput(
                f"the program in line {program.line} has no kernel; name one with "
                "--input FILE.py:KERNEL"
            )
        return start


def _first(make: Callable[[RecipeFromInput], RecipeStart | None]) -> RecipeStart | None:
    return next(filter(None, map(make, recipe_starters().values())), None)


def _check_file(path: Path) -> None:
    if not os.path.isfile(path):  # noqa: PTH113 - false for a name that is too long
        raise BadInput(f"there is no input {path}")
    with path.open("rb") as file:
        if not file.read(_FIRST_BYTES).strip():
            raise BadInput(f"the input {path} is empty")


def _versions(text: str, name: str) -> list[str]:
    """Return the revisions of the compiler that a text names, those under the issue
    form's heading first.
    """
    family = family_named(name)
    heading = re.escape(family.issue_form.version)
    section = re.search(rf"(?ims)^#+ *{heading} *\n(.*?)(?=^#|\Z)", text)
    if section:
        versions = re.findall(rf"(?m)^[ \t]*{_VERSION}[ \t]*$", section[1])
    else:
        versions = []
    names = "|".join(
        re.escape(name)
        for name in (family.distribution, *family.recipe.nicknames, family.name)
        if name
    )
    versions += re.findall(
        rf"(?i)\b(?:{names})\b[^\n\d]{{0,40}}?(?<![\d.]){_VERSION}", text
    )
    return list(
        dict.fromkeys(
            _NIGHTLY.sub(r"nightly:\1-\2-\3", version) for version in versions
        )
    )[:_REPORTED]


def _chosen(
    noun: str, excerpts: Sequence[E], number: int | None, option: str
) -> E | None:
    """Return the excerpt that is meant. Raises BadInput for several without a choice,
    and for a number that is too large.
    """
    count = f"{len(excerpts)} {noun}{'' if len(excerpts) == 1 else 's'}"
    if number is not None and number > len(excerpts):
        raise BadInput(f"there is no {noun} {number}: the text has {count}")
    if len(excerpts) > 1 and number is None:
        lines = [f"the text has {count}; choose one with {option} N:"]
        for index, each in enumerate(excerpts, 1):
            text = " ".join(each.text.split())
            lines.append(f"  {index}  line {each.line}: {text[:_LONGEST]}")
        raise BadInput("\n".join(lines))
    if excerpts:
        return excerpts[(number or 1) - 1]
    return None
