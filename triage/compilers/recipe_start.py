"""Start a recipe from an input file, a command line, or a text with both: an issue, a
gist or a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from triage.classify import classify_log, packaged_rules
from triage.classify.log import decoded
from triage.compilers.base import Compiler
from triage.compilers.pasted_flags import harmless_flags, keep_harmless
from triage.compilers.pasted_text import variables_in
from triage.compilers.recipe_input import (
    PastedText,
    RecipeRequest,
    ShellCommand,
    TextExcerpt,
    with_response_files,
)
from triage.compilers.registry import (
    DEFAULT_FAMILY,
    family_named,
    recipe_families,
    recipe_starters,
)
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?![\w.]*\d)"
_NIGHTLY = re.compile(r".*rc(\d{4})(\d\d)(\d\d)")
# The only words that may stand between the name of a compiler and its version. After
# others, the version is that of a model or of another program.
_BEFORE_VERSION = (
    r"(?:[^\w\n]|(?<![a-z])(?:versions?|compiler|release|runtime|nightly|package|is|at)"
    r"(?![a-z])){1,40}?"
)
_RELEASE = re.compile(
    r"(?im)(?:^[^\w\n]*version|\b(?:the|this|my) (?:compiler|version|release)(?: is)?"
    r"|\b(?:on|since|with|in|from|to)(?: the)?(?: version| release)?)[ :]+"
    r"v?(\d+\.\d+\.\d+(?:rc\d{8})?)(?!\w|\.\d)"
)
_DATED = re.compile(r"(?i)\bnightly\b[^\n\d]{0,20}\b(20\d\d)-?(\d\d)-?(\d\d)\b")
_FAILURES_IN_WORDS = {
    "segfault": re.compile(r"(?i)\bseg(?:mentation )?faults?\b"),
    "wrong-result": re.compile(
        r"(?i)\b(?:wrong|incorrect) (?:numerical )?(?:results?|outputs?|values?)\b"
        r"|\bmiscompil"
    ),
}
_OTHER_PYTHON = re.compile(
    r"^[ \t>]*(?:import|from) (?:torch|jax|triton|tensorflow)\b", re.M
)
_LINK = re.compile(
    r"https?://\S*(?:gist|paste|drive|dropbox|files|attachments|upload)\S*"
)
_MOST_REVISIONS = 3  # of those that a text names
_FIRST_BYTES = 1 << 16
_LONGEST = 160  # characters of an excerpt in a message
E = TypeVar("E", TextExcerpt, ShellCommand)


class NoProgramError(BadInput):
    """A text contains no complete program.

    `command` is the text's command line, empty if it has none: the tool, the word
    PROGRAM, and the flags that can do no harm.
    """

    def __init__(self, message: str, command: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.command = command


@dataclass(frozen=True, slots=True)
class NewRecipe(RecipeRequest):
    """A request for a recipe, with the ways to start one."""

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
        call = with_response_files(call)
        start = starter.from_call(call, self.backend, self.source)
        _check_file(start.input)
        # a compiler reads a file of any name
        if recipe_families()[start.family].kind_of(start.input.suffix) is None:
            return replace(
                start,
                input=self.path.with_suffix(".mlir"),
                copied=decoded(start.input.read_bytes()),
            )
        return start

    def from_file(self, source: Path) -> RecipeStart:
        """Start from an input file, with the first family that compiles such files."""
        _check_file(source)
        for starter in recipe_starters().values():
            start = starter.from_source(self, source)
            if start is not None:
                return start
        raise BadInput(f"{source} has no kernel; name one as FILE.py:KERNEL")

    def from_text(
        self, text: str, name: str, block: int | None, line: int | None
    ) -> tuple[RecipeStart, list[str]]:
        """Start from a program and a command line in a text.

        Args:
            text: The text.
            name: What messages call the text.
            block: The number of the program to use, if there are several.
            line: The number of the command line to use, if there are several.

        Returns:
            The recipe, and the revisions for which the text reports a failure.

        Raises:
            NoProgramError: The text has no program, or an incomplete one.
            BadInput: It has several programs or command lines, and none is chosen.
        """
        family, pasted = _family_of(text)
        if self.source is None:
            program = _complete_program(pasted, text, name, block)
        else:
            program = None
        call = _chosen("command line", pasted.commands, line, "--line")
        variables = variables_in(text, pasted.programs)
        if call:
            start = self._from_pasted_call(family, call, program, variables)
        elif program:
            start = self._from_program(family, program, text)
            start = keep_harmless(replace(start, env=variables), frozenset())
        else:
            start = self.from_file(self.source or self.path.with_suffix(".mlir"))
        versions = reported_revisions(text, family)
        failure = _reported_failure(text)
        notes = list(start.notes)
        if start.refused:
            words = " ".join(start.refused)
            notes.append(
                f"Left out of the text: {words}. Keep it with --save FILE and add "
                "it there."
            )
        if versions:
            notes.append(f"Reported for {', '.join(versions)}.")
        if failure is None:
            return replace(start, notes=tuple(notes)), versions
        notes.append(
            f"Reported failure: {failure}. `triage run` says xfail when it reproduces."
        )
        return replace(start, notes=tuple(notes), expect=(failure,)), versions

    def _from_pasted_call(
        self,
        family: str,
        call: ShellCommand,
        program: TextExcerpt | None,
        variables: Mapping[str, str],
    ) -> RecipeStart:
        starter = recipe_starters()[family]
        input_file = self.source or self.path.with_suffix(".mlir")
        start = starter.from_call(call, self.backend, input_file)
        start = replace(start, env={**variables, **start.env})
        start = keep_harmless(start, _flags_allowed_in_texts())
        response_files = [word for word in call.words if word.startswith("@")]
        start = replace(start, refused=(*response_files, *start.refused))
        if program is None:
            return start
        # LLVM's tools read MLIR and LLVM IR.
        if start.family != DEFAULT_FAMILY and "define " in program.text:
            start = replace(start, input=self.path.with_suffix(".ll"))
        return replace(start, copied=program.text)

    def _from_program(
        self, family: str, program: TextExcerpt, text: str
    ) -> RecipeStart:
        """Start from a program without a command line. Its target is guessed from the
        text around it, and noted as assumed.
        """
        starter = recipe_starters()[family]
        assumed: list[str] = []
        notes: list[str] = []
        if self.backend:
            target = starter.target_named(self.backend, self.chip)
        else:
            target = starter.target_in(text)
            try:
                recipe_families()[family].check_chip(target)
            except BadInput as error:
                notes.append(f"The text names {target.chip}: {error}.")
            if len(recipe_families()[family].backends) > 1:
                assumed = [name for name in (target.backend, target.chip) if name]
        if family == DEFAULT_FAMILY:
            input_file = self.path.with_suffix(".mlir")
            return RecipeStart(
                family,
                input_file,
                target,
                copied=program.text,
                assumed=assumed,
                notes=notes,
            )
        request = replace(self, backend=target.backend, chip=target.chip)
        start = starter.from_pasted(request, program.text)
        if start is None:
            raise NoProgramError(
                f"the program in line {program.line} has no kernel; name one with "
                "--input FILE.py:KERNEL"
            )
        return replace(
            start, assumed=(*assumed, *start.assumed), notes=(*notes, *start.notes)
        )


def _complete_program(
    pasted: PastedText, text: str, name: str, block: int | None
) -> TextExcerpt:
    program = _chosen("program", pasted.programs, block, "--block")
    if program is None:
        raise NoProgramError(
            f"{name} contains no program{_instead(text)}", _harmless_command(pasted)
        )
    if program.lacks:
        raise NoProgramError(
            f"the program in line {program.line} of {name} was cut: {program.lacks}",
            _harmless_command(pasted),
        )
    return program


def _flags_allowed_in_texts() -> frozenset[str]:
    names = (starter.flags_allowed_in_texts for starter in recipe_starters().values())
    return frozenset().union(*names)


def _harmless_command(pasted: PastedText) -> list[str]:
    if not pasted.commands:
        return []
    call = pasted.commands[0]
    return [
        call.tool,
        "PROGRAM",
        *harmless_flags(call.words, _flags_allowed_in_texts()),
    ]


def _family_of(text: str) -> tuple[str, PastedText]:
    """Return the family that a text is about, with the programs and calls that it
    finds: the default family if the text calls its compiler, else the first family that
    finds any.
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
    """Say what a text has instead of a program, for the end of an error's sentence."""
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
    """Yield the versions in the issue form's section for it, then those that follow the
    compiler's name, then those that follow a word such as `since`, then nightlies.
    """
    heading = re.escape(family.issue_form.version)
    section = re.search(rf"(?ims)^#+ *{heading} *\n(.*?)(?=^#|\Z)", text)
    if section:
        yield from re.findall(rf"(?m)^[ \t]*{_VERSION}[ \t]*$", section[1])
    names = (family.distribution, *family.recipe.nicknames, family.name)
    compiler = "|".join(re.escape(name) for name in names if name)
    yield from re.findall(
        rf"(?i)\b(?:{compiler})\b{_BEFORE_VERSION}(?<![\d.]){_VERSION}", text
    )
    yield from _RELEASE.findall(text)
    for date in _DATED.finditer(text):
        yield f"nightly:{date[1]}-{date[2]}-{date[3]}"


def _reported_failure(text: str) -> str | None:
    """Return the first failure class in a text that a packaged rule defines, or that
    its sentences name.
    """
    rules = packaged_rules()
    known = {rule.name for rule in rules}
    log = classify_log(BytesIO(text.encode("utf-8", "replace")), rules)
    for failure in log.failures:
        if failure.failure_class in known:
            return failure.failure_class
    for failure_class, words in _FAILURES_IN_WORDS.items():
        if words.search(text):
            return failure_class
    return None


def _chosen(
    noun: str, excerpts: Sequence[E], number: int | None, option: str
) -> E | None:
    """Return the only excerpt, or the one with a number from 1; None if there is none.

    Raises BadInput if there are several and `number` is None, or fewer than `number`.
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
