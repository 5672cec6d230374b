"""Find the compiler's command in what was pasted from a shell: prompts, wrappers, pipes, redirections, several lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from triage.model.errors import BadInput

_PROGRAM = re.compile(r"(?:.*[\\/])?(iree-compile|iree-opt|ireec)(?:-[\d.]+)?(?:\.exe)?\Z", re.DOTALL)
# LLVM's tools; their short names are words of English too, so that they count only where a command begins.
_LLVM_TOOL = re.compile(
    r"(?:^\s*|[`|;&]\s*|[$%]\s+|RUN:\s*)(?:[^\s`\"']*/)?(?P<tool>mlir-opt|circt-opt|opt|llc)(?:-\d+)?(?=\s+\S)"
)
_MODULE = re.compile(r"iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?\Z")
_IN_TEXT = re.compile(
    r"(?<![\w.-])(?:[^\s\"'`()|;&<>=]*[\\/])?(?:iree-compile|iree-opt|ireec)(?:-[\d.]+)?(?:\.exe)?(?=[\s\"'`]|$)"
    r"|-m\s+iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?(?=\s)"
)
_IREE = re.compile(r"iree-|ireec|iree\.compiler")
_RUNNERS = re.compile(r"(?:\S*/)?iree-(?:run|benchmark|check)-module(?:\.exe)?(?=\s|$)")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS = frozenset({"|", "||", "&&", ";", "&", "|&", ";;"})
_REDIRECTION = re.compile(r"\d*(>&|&>>?|>\||>>?|<<?<?)(.*)", re.DOTALL)
_CONTINUED = re.compile(r"[ \t]*(?<!\\)[\\^`][ \t]*\r?\n[ \t]*(?:>[ \t]+)?")
_MOST_LINES = 100  # of a quoted text


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of the compiler. tool: `iree-compile`, `iree-opt`, `llc`, ...; words: its arguments; env: variables set for it;
    stdin: the file that is its standard input, if one is named; line: its number in the text, from 1.
    """

    tool: str
    words: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    stdin: str | None = None
    line: int = 1


def command_of(words: Sequence[str]) -> ShellCommand | None:
    """The call of the compiler in the words of a command line; None when there is none.

    The words may be one text, begin with a prompt or a wrapper such as `time`, and end with a pipe.
    """
    if len(words) == 1 and re.search(r"\s", words[0]):
        return next(commands_in(words[0]), None)
    for index, word in enumerate(words):
        if (tool := _tool(words, index)) is not None:
            return _command(tool, words[:index], words[index + 1 :], 1)
        if word.startswith("-") and index == 0:  # options alone
            break
    return None


def commands_in(text: str) -> Iterator[ShellCommand]:
    """Yield the calls of the compiler in a text, such as an issue or a log."""
    for number, line in _logical_lines(text):
        end = -1
        for match in _IN_TEXT.finditer(line):
            before, after = line[: match.start()], line[match.end() :]
            is_repeated, end = not line[max(end, 0) : match.start()].strip() and end >= 0, match.end()
            if is_repeated:  # Python's `Invoked with:` prints the name and the path
                continue
            if before.count("`") % 2:  # code in a sentence
                after = after.partition("`")[0]
            words = _split(after.removeprefix('"').removeprefix("'"))
            tool = _PROGRAM.match(match[0])
            if words is not None:
                yield _command(tool[1] if tool else "iree-compile", _split(before) or [], words, number)


def llvm_commands_in(text: str) -> Iterator[ShellCommand]:
    """Yield the calls of LLVM's and MLIR's tools in a text."""
    for number, line in _logical_lines(text, _LLVM_TOOL):
        for match in _LLVM_TOOL.finditer(line):
            after = line[match.end() :]
            if line[: match.end()].count("`") % 2:
                after = after.partition("`")[0]
            yield _command(match["tool"], [], _split(after) or after.split(), number)


def runs_in(text: str) -> list[str]:
    """The lines of a text that run a compiled module."""
    lines = (line for _, line in _logical_lines(text))
    return [line[match.start() :].strip() for line in lines if (match := _RUNNERS.search(line))]


def _logical_lines(text: str, programs: re.Pattern[str] = _IREE) -> Iterator[tuple[int, str]]:
    """Join lines that a backslash continues, that are inside quotes, and that hold only further options."""
    lines = text.splitlines(keepends=True)
    index = 0
    while index < len(lines):
        first, joined = index, lines[index]
        index += 1
        if not programs.search(joined):
            yield first + 1, joined
            continue
        while index < len(lines) and index - first < _MOST_LINES:
            is_open = _CONTINUED.search(joined[-40:]) is not None and re.search(r"[\\^`][ \t]*\r?\n\Z", joined) is not None
            if is_open or re.match(r"\s*(?:>\s+)?--?[a-z][\w-]*[= \n]", lines[index]) or _is_quoted(joined, lines[index]):
                joined += lines[index]
                index += 1
            else:
                break
        yield first + 1, re.sub(r"\s*\n\s*(?:>\s+)?", " ", _CONTINUED.sub(" ", joined))


def _is_quoted(text: str, following: str) -> bool:
    """Whether the text ends inside quotes that the next line can close."""
    return text.count("'") % 2 == 1 and "'" in following and "=" in text.rpartition("'")[0][-40:]


def _split(text: str) -> list[str] | None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        return text.split() if "iree" in text or "--" in text else None


def _tool(words: Sequence[str], index: int) -> str | None:
    if match := _PROGRAM.match(words[index]):
        return match[1]
    is_module = index > 0 and words[index - 1] == "-m" and _MODULE.match(words[index])
    return "iree-compile" if is_module else None


def _command(tool: str, before: Sequence[str], after: Sequence[str], line: int) -> ShellCommand:
    words: list[str] = []
    stdin = _piped_file(before)
    rest = iter(after[1:] if after and _PROGRAM.match(after[0]) else after)
    for word in rest:
        if word in _ENDS or word == "#":
            break
        if redirection := _REDIRECTION.fullmatch(word):
            if words and words[-1].isdigit() and not redirection[2]:
                words.pop()  # `2>&1` and `2> log`
            target = redirection[2] or next(rest, "")
            stdin = target if redirection[1] == "<" else stdin
        else:
            words.append(word)
    tool = "iree-compile" if tool == "ireec" else tool
    return ShellCommand(tool, tuple(words), tuple(_settings(before)), stdin, line)


def _settings(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The variables in front of a program, of its own command only."""
    for index in range(len(before) - 1, -1, -1):
        if before[index] in _ENDS and before[index] != "&&":
            before = before[index + 1 :]
            break
    for word in before:
        if (match := _SETTING.fullmatch(word)) is not None:
            yield match[1], match[2]


def _piped_file(before: Sequence[str]) -> str | None:
    """`model.mlir` of `cat model.mlir | iree-compile -`."""
    if len(before) >= 3 and before[-1] == "|" and PurePath(before[-3]).name == "cat":
        return before[-2]
    return None


def expand_response_files(words: Sequence[str], folder: PurePath) -> list[str]:
    """Replace each `@FILE` by the words in the file.

    Raises:
        BadInput: A file cannot be read.
    """
    expanded: list[str] = []
    for word in words:
        if not word.startswith("@"):
            expanded.append(word)
            continue
        path = folder / word[1:]
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a pure path, which may be of another system
                text = file.read()
        except OSError as error:
            raise BadInput(f"the response file {path} cannot be read: {error.strerror or error}") from error
        expanded += expand_response_files(shlex.split(text, comments=True), path.parent)
    return expanded
