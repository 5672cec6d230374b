"""Find the compiler's command in what was pasted from a shell: prompts, wrappers, pipes, redirections, several lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.model.errors import BadInput

IREE_TOOLS = re.compile(
    r"(?<![\w.-])(?:[^\s\"'`()|;&<>=]*[\\/])?(?P<tool>iree-compile|iree-opt|ireec)(?:-[\d.]+)?(?:\.exe)?(?=[\s\"'`]|$)"
    r"|-m\s+iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?(?=\s)"
)
_RUNNERS = re.compile(r"(?:\S*/)?iree-(?:run|benchmark|check)-module(?:\.exe)?(?=\s|$)")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS = frozenset({"|", "||", "&&", ";", "&", "|&", ";;", "#"})
_REDIRECTION = re.compile(r"\d*(>&|&>>?|>\||>>?|<<?<?)(.*)", re.DOTALL)
_CONTINUED = re.compile(r"[ \t]*(?<!\\)[\\^`][ \t]*\r?\n(?:[ \t]*(?:>[ \t]+)?)")
_OPTION = re.compile(r"\s*(?:>\s+)?--?[a-z][\w-]*[= \n]")
_MOST_LINES = 100  # of a quoted text


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of the compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables set for it."""
    stdin: str | None = None
    """The file that is its standard input, if one is named."""
    line: int = 1
    """Its number in the text, from 1."""


def calls_in(text: str, tools: re.Pattern[str] = IREE_TOOLS) -> Iterator[ShellCommand]:
    """Yield the calls of compilers in a text, such as an issue, a log or a command line."""
    for number, line in _logical_lines(text, tools):
        end: int | None = None
        for match in tools.finditer(line):
            is_repeated, end = end is not None and not line[end : match.start()].strip(), match.end()
            if is_repeated:  # Python's `Invoked with:` prints the name and the path
                continue
            before, after = line[: match.start()], line[end:]
            if line[:end].count("`") % 2:  # code in a sentence
                after = after.partition("`")[0]
            tool = match["tool"] or "iree-compile"
            following = _split(after.removeprefix('"').removeprefix("'"))
            yield _call("iree-compile" if tool == "ireec" else tool, _split(before), following, tools, number)


def runs_in(text: str) -> list[str]:
    """The lines of a text that run a compiled module."""
    lines = (line for _, line in _logical_lines(text, _RUNNERS))
    return [line[match.start() :].strip() for line in lines if (match := _RUNNERS.search(line))]


def _logical_lines(text: str, programs: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Join lines that a backslash continues, that are inside quotes, and that hold only further options."""
    lines = text.splitlines(keepends=True)
    index = 0
    while index < len(lines):
        first, joined = index, lines[index]
        index += 1
        is_call = programs.search(joined) is not None
        while is_call and index < len(lines) and index - first < _MOST_LINES:
            is_open = re.search(r"(?<!\\)[\\^`][ \t]*\r?\n\Z", joined) is not None
            is_quoted = joined.count("'") % 2 == 1 and "'" in lines[index] and "=" in joined.rpartition("'")[0][-40:]
            if not (is_open or is_quoted or _OPTION.match(lines[index])):
                break
            joined += lines[index]
            index += 1
        yield first + 1, re.sub(r"\s*\n\s*(?:>\s+)?", " ", _CONTINUED.sub(" ", joined)) if is_call else joined


def _split(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        return text.split()


def _call(tool: str, before: list[str], after: list[str], tools: re.Pattern[str], line: int) -> ShellCommand:
    words: list[str] = []
    is_piped = len(before) >= 3 and before[-1] == "|" and Path(before[-3]).name == "cat"
    stdin = before[-2] if is_piped else None  # `model.mlir` of `cat model.mlir | iree-compile -`
    rest = iter(after[1:] if after and tools.fullmatch(after[0]) else after)
    for word in rest:
        if word in _ENDS:
            break
        if redirection := _REDIRECTION.fullmatch(word):
            if words and words[-1].isdigit() and not redirection[2]:
                words.pop()  # `2>&1` and `2> log`
            target = redirection[2] or next(rest, "")
            stdin = target if redirection[1] == "<" else stdin
        else:
            words.append(word)
    ends = [index for index, word in enumerate(before) if word in _ENDS and word != "&&"]
    own = before[ends[-1] + 1 :] if ends else before
    env = tuple((match[1], match[2]) for word in own if (match := _SETTING.fullmatch(word)))
    return ShellCommand(tool, tuple(words), env, stdin, line)


def expand_response_files(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Replace each `@FILE` by the words in the file. BadInput if one cannot be read."""
    for word in words:
        if not word.startswith("@"):
            yield word
            continue
        path = folder / word[1:]
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise BadInput(f"the response file {path} cannot be read: {error.strerror or error}") from error
        yield from expand_response_files(shlex.split(text, comments=True), path.parent)
