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
from triage.compilers.pasted_flags import harmless_flags, keep_harmless
from triage.compilers.recipe_input import (
    PastedText,
    RecipeFromInput,
    ShellCommand,
    TextExcerpt,
)
from triage.compilers.registry import (
    DEFAULT_FAMILY,
    family_named,
    recipe_families,
    recipe_starters,
)
from triage.compilers.response_files import with_files
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?![\w.]*\d)"
_NIGHTLY = re.compile(r".*rc(\d{4})(\d\d)(\d\d)")
_RELEASE = re.compile(
    r"(?i)\b(?:on|since|with|in|from|to|is|version|release)[ :]+"
    r"v?(\d+\.\d+\.\d+(?:rc\d{8})?)(?!\w|\.\d)"
)
_DATED = re.compile(r"(?i)\bnightly\b[^\n\d]{0,20}\b(20\d\d)-?(\d\d)-?(\d\d)\b")
_OTHER_PYTHON = re.compile(
    r"^[ \t>]*(?:import|from) (?:torch|jax|triton|tensorflow)\b", re.M
)
_LINK = re.compile(
    r"https?://\S*(?:gist|paste|drive|dropbox|files|attachments|upload)\S*"
)
_REPORTED = 3  # revisions of a text that count
_FIRST_BYTES = 1 << 16
_LONGEST = 160  # characters of an excerpt in a message
E = TypeVar("E", TextExcerpt, ShellCommand)


class NoProgramError(BadInput):
    """A text contains no whole program. command: a command line to compile it with, if
    the text has one: its tool, `PROGRAM`, and the flags that can do no harm.
    """

    def __init__(self, message: str, command: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.command = command


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
        family, pasted = _family_of(text)
        program = None
        if self.source is None:
            program = _chosen("program", pasted.programs, block, "--block")
            if program is None:
                raise NoProgramError(
                    f"{name} contains no program{_instead(text)}",
                    _command_in(pasted),
                )
            if program.lacks:
                raise NoProgramError(
                    f"the program in line {program.line} of {name} was cut: "
                    f"{program.lacks}",
                    _command_in(pasted),
                )
        call = _chosen("command line", pasted.commands, line, "--line")
        if call:
            start = self._from_pasted_call(family, call, program)
        elif program:
            start = self._from_program(family, program, text)
        else:
            start = self.from_file(self.source or self.path.with_suffix(".mlir"))
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

    def _from_pasted_call(
        self, family: str, call: ShellCommand, program: TextExcerpt | None
    ) -> RecipeStart:
        starter = recipe_starters()[family]
        place = self.path.with_suffix(".mlir")
        start = starter.from_call(call, self.backend, self.source or place)
        responses = [word for word in call.words if word.startswith("@")]
        start = keep_harmless(start, _flags_of_texts())
        start = replace(start, refused=(*responses, *start.refused))
        if program is None:
            return start
        if start.family != DEFAULT_FAMILY and "define " in program.text:
            start = replace(start, input=self.path.with_suffix(".ll"))
        return replace(start, copied=program.text)

    def _from_program(
        self, family: str, program: TextExcerpt, text: str
    ) -> RecipeStart:
        """Start from a program without a command line. What to compile it for is read
        from the text around it, and said to be assumed.
        """
        starter = recipe_starters()[family]
        target, assumed = starter.target_in(text), list[str]()
        if self.backend:
            target = starter.target_named(self.backend, self.chip)
        else:
            try:
                recipe_families()[family].check_chip(target)
            except BadInput:  # a chip that no release knows
                target = replace(target, chip=None)
            if len(recipe_families()[family].backends) > 1:
                assumed = [name for name in (target.backend, target.chip) if name]
        if family == DEFAULT_FAMILY:
            place = self.path.with_suffix(".mlir")
            return RecipeStart(
                family, place, target, copied=program.text, assumed=assumed
            )
        start = starter.from_pasted(
            self.path, program.text, target.backend, target.chip, self.kernel
        )
        if start is None:
            raise NoProgramError(
                f"the program in line {program.line} has no kernel; name one with "
                "--input FILE.py:KERNEL"
            )
        return replace(start, assumed=(*assumed, *start.assumed))


def _flags_of_texts() -> frozenset[str]:
    names = (starter.flags_of_texts for starter in recipe_starters().values())
    return frozenset().union(*names)


def _command_in(pasted: PastedText) -> list[str]:
    if not pasted.commands:
        return []
    call = pasted.commands[0]
    return [call.tool, "PROGRAM", *harmless_flags(call.words, _flags_of_texts())]


def _family_of(text: str) -> tuple[str, PastedText]:
    """Return the family that a text is about: the default one if its compiler is
    called, else the first that finds a program or a command line.
    """
    found = {
        family: starter.read_text(text) for family, starter in recipe_starters().items()
    }
    if found[DEFAULT_FAMILY].commands:
        return DEFAULT_FAMILY, found[DEFAULT_FAMILY]
    for family, pasted in found.items():
        if pasted.programs or pasted.commands:
            return family, pasted
    return DEFAULT_FAMILY, found[DEFAULT_FAMILY]


def _instead(text: str) -> str:
    """Say what a text without a program has in its place."""
    if _OTHER_PYTHON.search(text):
        return (
            "; its Python has no kernel under triton.jit and no function under "
            "jax.jit, so nothing says what to compile: export the model to a file"
        )
    left_out = re.search(r"(?m)^[ \t>]*(?:\.\.\.|…)[ \t]*$", text)
    if left_out:
        line = text.count("\n", 0, left_out.start()) + 1
        return f"; its line {line} says that something was left out"
    if _LINK.search(text):
        return ", only a link to one, which is not opened: save it to a file"
    return ""


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
    versions += _RELEASE.findall(text)
    versions += [
        f"nightly:{date[1]}-{date[2]}-{date[3]}" for date in _DATED.finditer(text)
    ]
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
