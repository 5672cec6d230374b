"""Find programs and command lines in an issue, a gist or a log that was pasted as text."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from triage.compilers.parts import PastedText, TextExcerpt
from triage.compilers.shell_words import ShellCommand, calls_in, runs_in

_FENCE = re.compile(
    r"^[ \t>]*(?P<mark>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n`]*\n(?P<body>.*?)^[ \t>]*(?P=mark)[ \t]*$", re.M | re.S
)
_TAG = re.compile(r"</?(?:details|summary|pre|code|br|p)\b[^>\n]*>", re.IGNORECASE)
_BEGINS = re.compile(
    r"^[ \t]*(?:builtin\.)?(?:module\b(?: *@\S+)?(?: attributes *\{.*)? *\{|func\.func\b|util\.func\b|hal\.executable\b"
    r'|flow\.executable\b|stream\.executable\b|hw\.module\b|ml_program\.\w+|"builtin\.module"|[#!][\w$.]+ *= *\S)'
)
_FUNCTION = re.compile(
    r"\b(?:func\.func|llvm\.func|util\.func|hal\.executable|flow\.executable|stream\.executable|hw\.module|func)\b[^\n]*[@{]"
)
_OPERATION = re.compile(r'^[ \t]*(?:%[\w#:, %]+ *= *)?"?[a-z_]\w*(?:\.\w+)+"?[ (<@{]', re.M)
_DUMP = re.compile(r"^// -----// IR Dump", re.M)
_LLVM_IR = re.compile(r"^(?:define\b[^\n]*@|target triple = |; ModuleID = )", re.M)
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.M)
_OF_NOTHING = re.compile(r'"(?:[^"\\\n]|\\.)*"')  # text, whose brackets and names mean nothing
_CLOSING = {")": "(", "]": "[", "}": "{"}
_INSIDE = re.compile(
    r"\s*(?:%[\w$.-]+(?::\d+)?(?:, *%[\w$.-]+(?::\d+)?)* *= (?!type\b)|(?:func\.|util\.|llvm\.)?(?:return|ret)\b|\^bb\d+[(:])"
)
_ALIAS = re.compile(r"(?<![\w%@^#!])([#!][A-Za-z_][\w$]*)(?![\w$.<])")


_Block = tuple[int, str]  # the number of its first line, from 1, and its text


def read_mlir(text: str) -> PastedText:
    """Find the MLIR programs, the calls of IREE's compiler, and the lines that run what it compiled."""
    text = _plain(text)
    programs = list(_mlir_programs(text))
    complete = [(line, program) for line, program in programs if _FUNCTION.search(program)]
    return PastedText(_excerpts(complete or programs), _lines(calls_in(text)), tuple(dict.fromkeys(runs_in(text))))


def read_llvm(text: str, tools: re.Pattern[str]) -> PastedText:
    """Find LLVM IR or MLIR, and the calls of LLVM's and MLIR's tools. Empty without such a call."""
    text = _plain(text)
    commands = _lines(calls_in(text, tools))
    if not commands:
        return PastedText()
    llvm = [(line, block) for line, block in _blocks(text) if _LLVM_IR.search(block)]
    return PastedText(_excerpts(llvm, partial(missing_in, comment=";")) or _excerpts(_mlir_programs(text)), commands)


def read_kernels(text: str) -> PastedText:
    """Find the Python programs that define a Triton kernel."""
    return PastedText(_excerpts(((line, block) for line, block in _blocks(_plain(text)) if _KERNEL.search(block)), _error_in))


def missing_in(text: str, comment: str = "//") -> str | None:
    """What a program in MLIR or LLVM IR lacks when it was cut out of a larger one; None for a whole one."""
    open_: list[tuple[str, int]] = []
    used: dict[str, int] = {}
    defined = set(re.findall(r"^[ \t]*([#!][\w$]+) *=", text, re.M))
    for number, line in enumerate(text.splitlines(), 1):
        line = _OF_NOTHING.sub("", line).partition(comment)[0]
        if line.strip() in ("...", "…"):
            return f"line {number} says that something was left out"
        if not open_ and _INSIDE.match(line):
            return f"line {number} belongs into a function, whose beginning is missing: {line.strip()[:60]}"
        for alias in _ALIAS.findall(line) if comment == "//" else ():
            used.setdefault(alias, number)
        for mark in line:
            if mark in "([{":
                open_.append((mark, number))
            elif mark in _CLOSING:
                if not open_ or open_[-1][0] != _CLOSING[mark]:
                    return f"line {number}: nothing opens the `{mark}`"
                open_.pop()
    if open_:
        mark, number = open_[-1]
        return f"the end is missing: nothing closes the `{mark}` of line {number}"
    unknown = next((name for name in used if name not in defined), None)
    return f"line {used[unknown]} uses {unknown}, and nothing defines it" if unknown else None


def _error_in(text: str) -> str | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno} is not Python: {error.msg}"
    return None


def _excerpts(programs: Iterable[_Block], lacks: Callable[[str], str | None] = missing_in) -> tuple[TextExcerpt, ...]:
    """Different programs that lack nothing; the first one when each lacks something."""
    found: dict[str, TextExcerpt] = {}
    for line, text in programs:
        found.setdefault("".join(text.split()), TextExcerpt(line, text.rstrip() + "\n", lacks(text)))
    excerpts = tuple(found.values())
    return tuple(excerpt for excerpt in excerpts if excerpt.lacks is None) or excerpts[:1]


def _plain(text: str) -> str:
    """The text without tags of HTML, and without the `> ` of a quotation."""
    text = _TAG.sub(lambda match: " " * len(match[0]), text.replace("\r\n", "\n"))
    is_quoted = all(line.startswith(">") for line in text.splitlines() if line.strip())
    return re.sub(r"^> ?", "", text, flags=re.M) if is_quoted else text


def _lines(calls: Iterable[ShellCommand]) -> tuple[TextExcerpt, ...]:
    commands: dict[str, TextExcerpt] = {}
    for call in calls:
        if any(word.startswith(("-", "@")) for word in call.words):
            settings = [f"{name}={shlex.quote(value)}" for name, value in call.env]
            stdin = ["<", shlex.quote(call.stdin)] if call.stdin else []
            line = " ".join([*settings, call.tool, *map(shlex.quote, call.words), *stdin])
            commands.setdefault(line, TextExcerpt(call.line, line))
    return tuple(commands.values())


def _blocks(text: str) -> list[_Block]:
    """The fenced blocks, or the whole text when it has none."""
    return [(_line(text, fence.start("body")), fence["body"]) for fence in _FENCE.finditer(text)] or [(1, text)]


def _mlir_programs(text: str) -> Iterator[_Block]:
    end, parts = 0, list[tuple[str, int, int]]()
    for fence in _FENCE.finditer(text):
        parts += [("", end, fence.start()), (fence["language"].lower(), fence.start("body"), fence.end("body"))]
        end = fence.end()
    for language, begin, stop in [*parts, ("", end, len(text))]:
        part, first = text[begin:stop], _line(text, begin)
        if language == "mlir" and not _DUMP.search(part) and _OPERATION.search(part):
            yield first, part
        else:
            yield from _regions(part.splitlines(keepends=True), first)


def _regions(lines: list[str], first: int) -> Iterator[_Block]:
    """Programs among other lines: each begins like one and ends where its braces are balanced."""
    index = 0
    while index < len(lines):
        if not _BEGINS.match(lines[index]) or (index and _DUMP.match(lines[index - 1])):
            index += 1
            continue
        stop = _end_of(lines, index)
        region = "".join(lines[index:stop])
        if _FUNCTION.search(region):
            yield first + index, region
        if stop is None:  # what it contains is not a program of its own
            indent = _indent(lines[index])
            stop = next((i for i in range(index + 1, len(lines)) if lines[i].strip() and _indent(lines[i]) <= indent), None)
        index = len(lines) if stop is None else max(stop, index + 1)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of(lines: list[str], first: int) -> int | None:
    """The index behind a program that begins at `first`: aliases and top-level operations, each with balanced braces; None
    when the last one is never closed.
    """
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
    return last if depth <= 0 else None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
