"""Find programs and calls of compilers in a pasted text, such as an issue, a gist, a
log or a shell's history.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from triage.compilers.recipe_input import RecipeStarter, ShellCommand
from triage.model.errors import BadInput
from triage.model.execution import IR_DUMP_LINE

_QUOTE = re.compile(r"^>(?: |$)", re.MULTILINE)
# a line of a listing: its number, and what marks it as one
_NUMBERED = re.compile(r"[ \t]*(\d{1,5})(?:[:|.)]|(?=\s|$))[ \t]?")
_SHORTEST_LISTING = 3  # lines
# a backslash at the end of a line, or an option at the beginning of the next one
_CONTINUED = re.compile(r"\\[ \t]*\n[ \t]*|\n[ \t]*(?=--?[a-z][\w-]*[= \n])")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS_OF_CALL = frozenset({"|", "||", "&&", ";", "&", "|&", ";;", "#"})
_REDIRECTION = re.compile(r"\d*(>&|&>>?|>\||>>?|<<?<?)(.*)", re.DOTALL)
_STDIN = ("-", "%s", "/dev/stdin")
_LONGEST_LINE = 1 << 16  # characters of a call
_MOST_CALLS = 5  # in one line
_FENCE = re.compile(r"[ \t]*(`{3,}+|~{3,}+)[^`]*$")
_BEGINS_MLIR = re.compile(
    r"[ \t]*(?:(?:builtin\.)?module\b.*\{|\"builtin\.module\"|(?:\w+\.)?func\b.*@"
    r"|(?:hal|flow|stream)\.executable\b|hw\.module\b|ml_program\.\w"
    r"|[#!][\w$.]+ *= *\S)"
)
_CONTINUES_MLIR = re.compile(r"\s|[})]|util\.|ml_program\.|//|\{-#|$")
_FUNCTION = re.compile(r"\b(?:func|executable|hw\.module|ml_program\.\w+)\b.*[@{]")
_DUMP = re.compile(IR_DUMP_LINE)
_CHIP = re.compile(
    r"\b(gfx(?:9\w{2}|1[0-2]\w{2})|sm_\d{2,3}a?)\b|\"cuda:(\d{2,3})\"", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PastedText:
    """The programs of one family in a text, and the calls of its compiler."""

    family: str
    programs: Sequence[str] = ()
    calls: Sequence[ShellCommand] = ()


def parse_pasted(text: str, starters: Mapping[str, RecipeStarter]) -> PastedText:
    """Return what a text is about: the last family if the text calls its compiler, else
    the first one of which it has anything.
    """
    text = _without_line_numbers(_QUOTE.sub("", text.replace("\r\n", "\n")))
    chosen: PastedText | None = None
    *_, last = starters
    for family, starter in starters.items():
        # a name without an option is only mentioned
        calls = [
            call
            for call in calls_in(text, starter.tools)
            if any(word.startswith(("-", "@")) for word in call.words)
        ]
        programs = starter.programs_in(text)
        is_first = chosen is None and (calls or programs)
        if is_first or (calls and family == last):
            chosen = PastedText(family, programs, calls)
    return chosen or PastedText(last)


def _without_line_numbers(text: str) -> str:
    """Remove the numbers before the lines of listings, which count up by one."""
    lines = text.splitlines(keepends=True)
    listing: list[int] = []  # the indexes of its lines
    number = 0
    for index, line in enumerate((*lines, "")):
        match = _NUMBERED.match(line)
        if not match or int(match[1]) != number + 1:
            if len(listing) >= _SHORTEST_LISTING:
                for position in listing:
                    lines[position] = _NUMBERED.sub("", lines[position], count=1)
            listing = []
        if match:
            listing.append(index)
            number = int(match[1])
    return "".join(lines)


def calls_in(text: str, tools: re.Pattern[str]) -> Iterator[ShellCommand]:
    """Yield the calls of compilers in a text. Prompts, wrappers, pipes and redirections
    may surround a call, and it may have several lines.
    """
    for line in _CONTINUED.sub(" ", text).splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        for match in islice(tools.finditer(line), _MOST_CALLS):
            before, after = line[: match.start()], line[match.end() :]
            if line[: match.end()].count("`") % 2:  # code in a sentence
                after = after.partition("`")[0]
            words = _words(after.removeprefix('"').removeprefix("'"))
            # Python's `Invoked with:` prints the name and the path
            if words and tools.fullmatch(words[0]):
                del words[0]
            yield _call(match["tool"] or "", _words(before), words)


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        return text.split()


def _call(tool: str, before: list[str], after: list[str]) -> ShellCommand:
    """Return the call of a tool, by the words around the tool's name."""
    stdin: str | None = None
    words: list[str] = []
    rest = iter(after)
    for word in rest:
        if word in _ENDS_OF_CALL:
            break
        redirection = _REDIRECTION.fullmatch(word)
        if not redirection:
            words.append(word)
            continue
        if words and words[-1].isdigit() and not redirection[2]:
            words.pop()  # `2>&1` and `2> log`
        file = redirection[2] or next(rest, "")
        if redirection[1] == "<":
            stdin = file
    env: list[tuple[str, str]] = []
    for word in before:
        setting = _SETTING.fullmatch(word)
        if word in _ENDS_OF_CALL and word != "&&":
            env.clear()  # they belong to another program
        elif setting:
            env.append((setting[1], setting[2]))
    return ShellCommand(tool, tuple(words), tuple(env), stdin)


def options_and_input(
    call: ShellCommand, programs: re.Pattern[str]
) -> tuple[list[str], Path | None]:
    """Split the words of a call into its options, with their values joined to them, and
    its input, the only word that is neither or that is named like `programs`; None if
    there is not exactly one.
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
    if call.stdin and not inputs:
        inputs = [call.stdin]
    if len(inputs) == 1:
        return options, Path(inputs[0])
    return options, None


def no_input(call: ShellCommand) -> BadInput:
    """Return the error for a call without exactly one input."""
    return BadInput(
        f"expected one input file in the command line of {call.tool}; name it with "
        "--input"
    )


def mlir_in(text: str) -> list[str]:
    """Return the whole MLIR programs with a function in a text. Dumps of IR are
    skipped.
    """
    programs: list[str] = []
    lines: list[str] = []
    depth, is_dump = 0, False
    for line in (*text.splitlines(keepends=True), "```"):
        is_header = _DUMP.match(line) is not None
        begins = _BEGINS_MLIR.match(line) is not None
        is_other = depth <= 0 and not begins and not _CONTINUES_MLIR.match(line)
        is_cut = line.strip() == "..."
        if is_other or is_header or is_cut or _FENCE.match(line):
            if depth == 0 and not is_dump:
                programs.append("".join(lines).rstrip() + "\n")
            lines, depth, is_dump = [], 0, is_header
        elif lines or begins:
            lines.append(line)
            depth += line.count("{") - line.count("}")
    return [text for text in dict.fromkeys(programs) if _FUNCTION.search(text)]


def python_in(text: str, marks: re.Pattern[str]) -> list[str]:
    """Return the Python programs that match `marks`, without a common indent."""
    programs = []
    for block in blocks_in(text):
        if not marks.search(block):
            continue
        code = textwrap.dedent(block)
        first, _, rest = code.partition("\n")
        if first.startswith("@"):  # it was copied without its indent
            code = f"{first}\n{textwrap.dedent(rest)}"
        try:
            ast.parse(code)
        # the last ones for deep nesting
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        programs.append(code.rstrip() + "\n")
    return programs


def blocks_in(text: str) -> list[str]:
    """Return the fenced blocks, or the whole text if it has none."""
    blocks: list[str] = []
    lines: list[str] = []
    mark = ""
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        if mark and line.strip() == mark:
            blocks.append("".join(lines))
            lines, mark = [], ""
        elif mark:
            lines.append(line)
        elif fence:
            mark = fence[1]
    return blocks or [text]


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
    chips = {
        match.start(): chip
        for card, chip in cards.items()
        for match in islice(re.finditer(rf"(?<![\w%@$.])(?:{card})(?!\w)", text), 1)
    }
    return chips[min(chips)] if chips else None
