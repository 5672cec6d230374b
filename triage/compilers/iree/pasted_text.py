"""Find MLIR programs and command lines in an issue, a gist or a log that was pasted as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from triage.compilers.iree.shell_words import commands_in, runs_in
from triage.recipes.family import PastedText, TextExcerpt

_FENCE = re.compile(
    r"^[ \t>]*(?P<mark>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n`]*\n(?P<body>.*?)^[ \t>]*(?P=mark)[ \t]*$", re.M | re.S
)
_TAG = re.compile(r"</?(?:details|summary|pre|code|br|p)\b[^>\n]*>", re.IGNORECASE)
_BEGINS = re.compile(
    r"^[ \t]*(?:builtin\.)?(?:module\b(?: *@\S+)?(?: attributes *\{.*)? *\{|func\.func\b|util\.func\b|hal\.executable\b"
    r'|flow\.executable\b|stream\.executable\b|ml_program\.\w+|"builtin\.module"|[#!][\w$.]+ *= *\S)'
)
_FUNCTION = re.compile(r"\b(?:func\.func|util\.func|hal\.executable|flow\.executable|stream\.executable|func)\b[^\n]*[@{]")
_OPERATION = re.compile(r'^[ \t]*(?:%[\w#:, %]+ *= *)?"?[a-z_]\w*(?:\.\w+)+"?[ (<@{]', re.M)
_DUMP = re.compile(r"^// -----// IR Dump", re.M)


def read_text(text: str) -> PastedText:
    """Find the programs, the calls of the compiler, and the lines that run what it compiled."""
    text = _without_quotes(_TAG.sub(lambda match: " " * len(match[0]), text.replace("\r\n", "\n")))
    programs = list(_programs(text))
    complete = [program for program in programs if _FUNCTION.search(program.text)]
    commands: dict[str, TextExcerpt] = {}
    for call in commands_in(text):
        if any(word.startswith(("-", "@")) for word in call.words):
            settings = [f"{name}={shlex.quote(value)}" for name, value in call.env]
            stdin = ["<", shlex.quote(call.stdin)] if call.stdin else []
            line = " ".join([*settings, call.tool, *map(shlex.quote, call.words), *stdin])
            commands.setdefault(line, TextExcerpt(call.line, line))
    return PastedText(tuple(_unique(complete or programs)), tuple(commands.values()), tuple(dict.fromkeys(runs_in(text))))


def _without_quotes(text: str) -> str:
    """Remove the `> ` before each line of a quotation, where every line of the text has one."""
    lines = text.splitlines(keepends=True)
    quoted = [line for line in lines if line.strip()]
    if quoted and all(line.startswith(">") for line in quoted):
        return "".join(re.sub(r"^> ?", "", line) for line in lines)
    return text


def _programs(text: str) -> Iterator[TextExcerpt]:
    end = 0
    for fence in _FENCE.finditer(text):
        yield from _regions(text, end, fence.start())
        language, body = fence["language"].lower(), fence["body"]
        start = fence.start("body")
        if language == "mlir" and not _DUMP.search(body) and _OPERATION.search(body):
            yield TextExcerpt(_line(text, start), body)
        else:
            yield from _regions(text, start, fence.end("body"))
        end = fence.end()
    yield from _regions(text, end, len(text))


def _regions(text: str, begin: int, end: int) -> Iterator[TextExcerpt]:
    """Programs among other lines: each begins like one and ends where its braces are balanced."""
    lines = text[begin:end].splitlines(keepends=True)
    number = _line(text, begin)
    index = 0
    while index < len(lines):
        if not _BEGINS.match(lines[index]) or (index and _DUMP.match(lines[index - 1])):
            index += 1
            continue
        stop = _end_of(lines, index)
        region = "".join(lines[index:stop])
        if _FUNCTION.search(region) and region.count("{") == region.count("}"):
            yield TextExcerpt(number + index, region)
        index = max(stop, index + 1)


def _end_of(lines: list[str], first: int) -> int:
    """The index behind a program that begins at `first`: aliases and top-level operations, each with balanced braces."""
    depth, index, last = 0, first, first
    while index < len(lines):
        line = lines[index]
        is_outside = depth == 0 and index > first and line.strip() and not _BEGINS.match(line)
        if is_outside and not line.startswith((" ", "\t", "}", "util.", "ml_program.", "//", "{-#")):
            break
        depth += line.count("{") - line.count("}")
        index += 1
        if depth <= 0 and line.strip():
            depth, last = 0, index
    return last


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _unique(programs: list[TextExcerpt]) -> Iterator[TextExcerpt]:
    seen: set[str] = set()
    for program in programs:
        key = "".join(program.text.split())
        if key not in seen:
            seen.add(key)
            yield TextExcerpt(program.line, program.text.rstrip() + "\n")
