"""Find programs and calls of compilers in a pasted text, such as an issue, a gist, a
log or a shell's history, and choose the flags of a call that can do no harm.

Somebody else wrote the text, and compilers have flags that start programs, load plugins
and write files. So a flag is passed on only if its name is in a list of flags that do
none of this, and its value cannot be the name of a file.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from triage.model.case import Target
from triage.model.errors import BadInput
from triage.model.execution import IR_DUMP_LINE
from triage.recipes.recipe import RecipeStart

# a line of a listing
_NUMBERED = re.compile(r"(?m)^[ \t]*\d{1,5}(?:[:|.)]|(?=\s))[ \t]?")
# a backslash at the end of a line, or an option at the beginning of the next one
_CONTINUED = re.compile(r"\\[ \t]*\n[ \t]*|\n[ \t]*(?=--?[a-z][\w-]*[= \n])")
_VARIABLE = re.compile(r"(?<!\S)[A-Za-z_]\w*=\S*")
_ENDS_OF_CALL = frozenset({"|", "||", "&&", ";", "&", "|&", "#"})
_REDIRECTION = re.compile(r"(?<=\s)\d?[<>][<>&]*\s*[^\s|&;]+")
_ANY = re.compile("")
_STDIN = ("-", "%s", "/dev/stdin")
_LONGEST_LINE = 1 << 16  # characters of a call
_FENCED = re.compile(r"(?ms)^[ \t]*```[^`\n]*\n(.*?)^[ \t]*```")
_BEGINS_MLIR = re.compile(
    r"(?:\s*//.*\n|\s)*(?:(?:builtin\.)?module\b|\"builtin\.module\"|(?:\w+\.)?func\b.*@"
    r"|(?:hal|flow|stream)\.executable\b|hw\.module\b|ml_program\.\w"
    r"|[#!][\w$.]+ *= *\S)"
)
_FUNCTION = re.compile(r"\b(?:func|executable|hw\.module|ml_program\.\w+)\b.*[@{]")
_CUT = re.compile(rf"(?m)^\s*\.\.\.\s*$|{IR_DUMP_LINE}")
_CHIP = re.compile(
    r"\b(gfx(?:9\w{2}|1[0-2]\w{2})|sm_\d{2,3}a?)\b|\"cuda:(\d{2,3})\"", re.IGNORECASE
)
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


@dataclass(frozen=True)
class ShellCommand:
    """A call of a compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    variables: tuple[str, ...] = ()
    """`NAME=VALUE` in front of it. They are not set."""


@dataclass(frozen=True)
class PastedProgram:
    """A program in a text."""

    text: str
    suffix: str
    """Of the file to write it to."""


@dataclass(frozen=True)
class RecipeRequest:
    """What a user says about a new recipe."""

    path: Path
    """The file to write it to."""
    source: Path | None
    """A program, which replaces the one in a command line."""
    backend: str | None
    chip: str | None
    kernel: str | None
    """The function to compile, if the program has several."""
    packages: tuple[str, ...] = ()
    """The packages with which a script runs, if a revision names any."""
    text: str = ""
    """The text with the program, of which a target is guessed that nobody names."""

    def assumed(self, target: Target) -> list[str]:
        """Return the parts of a target that the user did not name."""
        words = (target.backend, target.chip)
        return [
            word for word in words if word and word not in (self.backend, self.chip)
        ]


class RecipeStarter:
    """Makes recipes from programs and command lines. No file that a pasted text names
    is opened.
    """

    tools: re.Pattern[str] = re.compile(r"(?P<tool>(?!))")
    """Finds the names of the compiler's programs in a command line. The group `tool`
    holds a name. By default, there are none.
    """

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return this family's programs in a pasted text."""
        return ()

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: Replaces the input of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    def from_program(
        self, request: RecipeRequest, path: Path, program: str
    ) -> RecipeStart | None:
        """Return a recipe for a program, if this family compiles such programs.

        Args:
            request: What the user asks for. Without a `source`, the program was pasted.
            path: The program's file; a pasted one is not written yet.
            program: Its text; empty for a file that is not Python.

        Raises:
            BadInput: It has several kernels, or not the one that is wanted.
        """
        return None


@dataclass(frozen=True)
class PastedContent:
    """The programs of one family in a text, and the calls of its compiler."""

    family: str
    programs: Sequence[PastedProgram] = ()
    calls: Sequence[ShellCommand] = ()


def pasted_content(
    request: RecipeRequest, starters: Mapping[str, RecipeStarter]
) -> PastedContent:
    """Return what the text of a request is about: the last family if the text calls its
    compiler, else the first one of which it has anything. Whatever a script is about,
    it runs with the packages that a revision names.
    """
    text = request.text
    scripts = python_in(text, _ANY) if request.packages else []
    if scripts:
        return PastedContent(
            "command", [PastedProgram(script, ".py") for script in scripts]
        )
    contents = [
        PastedContent(family, starter.programs_in(text), _complete_calls(text, starter))
        for family, starter in starters.items()
    ]
    last = contents[-1]
    if last.calls:
        return last
    return next((item for item in contents if item.programs or item.calls), last)


def _complete_calls(text: str, starter: RecipeStarter) -> list[ShellCommand]:
    """Return the calls with an option. A name without one is only mentioned."""
    return [
        call
        for call in calls_in(text, starter.tools)
        if any(word.startswith(("-", "@")) for word in call.words)
    ]


def calls_in(text: str, tools: re.Pattern[str]) -> Iterator[ShellCommand]:
    """Yield the calls of compilers in a text, at most one a line. Prompts, wrappers,
    pipes and redirections may surround a call, and it may have several lines.
    """
    for line in _CONTINUED.sub(" ", text).splitlines():
        match = tools.search(line) if len(line) < _LONGEST_LINE else None
        if match:
            before = line[: match.end()]
            after = line[match.end() :]
            if before.count("`") % 2:  # code in a sentence
                after = after.partition("`")[0]
            variables = tuple(_VARIABLE.findall(before))
            yield ShellCommand(
                match["tool"] or "", tuple(_words_of_call(after)), variables
            )


def _words_of_call(text: str) -> Iterable[str]:
    """Return the words of a call to its end, without redirections."""
    lexer = shlex.shlex(
        _REDIRECTION.sub(" ", text), posix=True, punctuation_chars="|&;"
    )
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        words = text.split()
    return takewhile(lambda word: word not in _ENDS_OF_CALL, words)


def options_and_input(
    call: ShellCommand, programs: re.Pattern[str], source: Path | None
) -> tuple[list[str], Path]:
    """Split the words of a call into its options, with their values joined to them, and
    its input: the only word that is neither or that is named like `programs`, unless
    `source` replaces it. Raises BadInput if there is not exactly one.
    """
    options: list[str] = []
    inputs: list[str] = []
    words = iter(call.words)
    for word in words:
        takes_value = options and "=" not in options[-1]
        if word in ("-o", "--o"):
            options.append(f"{word}={next(words, '')}")
        elif word.startswith("-") and word != "-":
            options.append(word)
        elif word in _STDIN:
            continue
        elif takes_value and not programs.search(word):
            options[-1] += f"={word}"
        else:
            inputs.append(word)
    if source is None and len(inputs) != 1:
        raise BadInput(
            f"expected one input file in the command line of {call.tool}; name it with "
            "--input"
        )
    return options, source or Path(inputs[0])


def mlir_in(text: str) -> list[str]:
    """Return the whole MLIR programs with a function in a text. Dumps of IR are
    skipped.
    """
    programs = []
    for block in blocks_in(text):
        is_whole = block.count("{") == block.count("}") and not _CUT.search(block)
        if is_whole and _BEGINS_MLIR.match(block) and _FUNCTION.search(block):
            programs.append(block.rstrip() + "\n")
    return programs


def python_in(text: str, marks: re.Pattern[str]) -> list[str]:
    """Return the Python programs that match `marks`, without a common indent."""
    programs = []
    for block in filter(marks.search, blocks_in(text)):
        code = textwrap.dedent(block)
        # the last ones for deep nesting
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            ast.parse(code)
            programs.append(code.rstrip() + "\n")
    return programs


def blocks_in(text: str) -> list[str]:
    """Return the fenced blocks, or the whole text if it has none."""
    return list(map(_without_line_numbers, _FENCED.findall(text))) or [text]


def _without_line_numbers(block: str) -> str:
    if all(map(_NUMBERED.match, block.splitlines())):
        return _NUMBERED.sub("", block)
    return block


def chip_in(text: str) -> str | None:
    """Return the first chip that a text names. If it names none, return that of the
    first graphics card.

    >>> chip_in("works on A100, fails on V100 (sm_70)")
    'sm_70'
    >>> chip_in("wrong on mi300x and on V100")
    'gfx942'
    """
    match = _CHIP.search(text)
    if match:
        return match[1].lower() if match[1] else f"sm_{match[2]}"
    import yaml

    cards = yaml.safe_load(Path(__file__).with_name("cards.yaml").read_text("utf-8"))
    names = "|".join(f"(?P<{chip}>{pattern})" for chip, pattern in cards.items())
    match = re.search(rf"(?<![\w%@$.])(?:{names})(?!\w)", text)
    return match and match.lastgroup


def harmless_flags() -> frozenset[str]:
    """Return the flags that are kept of a pasted command line, by name, from the
    `pasted_flags.yaml` of each family. None of them starts a program or names a file.
    """
    import yaml

    names = set[str]()
    for file in Path(__file__).parent.glob("*/pasted_flags.yaml"):
        lists = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
        names.update(" ".join(lists.values()).split())
    return frozenset(names)


def refuse_harmful_flags(start: RecipeStart) -> RecipeStart:
    """Move the flags that might do harm to the recipe's `refused`. Raises BadInput if
    the backend or the chip is not a word.
    """
    target = start.target or Target("host")
    for word in (target.backend, target.chip or ""):
        if not _HARMLESS_VALUE.fullmatch(word):
            raise BadInput(
                f"{word!r} names no target; name it with --backend and --chip"
            )
    names = harmless_flags()
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
    assigned = re.findall(r"([\w.-]*)=", value)
    if name not in names or any(map(_NAMES_A_FILE.search, assigned)):
        return False
    if name not in _PIPELINES:
        return _HARMLESS_VALUE.fullmatch(value) is not None
    passes = re.findall(r"[\w.-]+", _PASS_OPTIONS.sub(" ", value))
    for braces, angles in _PASS_OPTIONS.findall(value):
        passes += [part for part in (braces or angles).split() if "=" not in part]
    unknown = [part for part in passes if not _ANCHORS.fullmatch(part)]
    return names.issuperset(unknown) and _PIPELINE.fullmatch(value) is not None
