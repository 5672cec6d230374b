"""Find programs and command lines in an issue, a gist or a log that was pasted as text."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator

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
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.M)
_OF_NOTHING = re.compile(r'"(?:[^"\\\n]|\\.)*"')  # text, whose brackets and names mean nothing
_CLOSING = {")": "(", "]": "[", "}": "{"}
_INSIDE = re.compile(
    r"\s*(?:%[\w$.-]+(?::\d+)?(?:, *%[\w$.-]+(?::\d+)?)* *= (?!type\b)|(?:func\.|util\.|llvm\.)?(?:return|ret)\b|\^bb\d+[(:])"
)
_ALIAS = re.compile(r"(?<![\w%@^#!])([#!][A-Za-z_][\w$]*)(?![\w$.<])")


def read_mlir(text: str) -> PastedText:
    """Find the MLIR programs, the calls of IREE's compiler, and the lines that run what it compiled."""
    text = _plain(text)
    programs = list(_unique(_mlir_programs(text)))
    complete = [program for program in programs if _FUNCTION.search(program.text)]
    commands = _lines(calls_in(text))
    return PastedText(_whole(complete or programs), commands, tuple(dict.fromkeys(runs_in(text))))


def read_kernels(text: str) -> PastedText:
    """Find the Python programs that define a Triton kernel."""
    blocks = [each for each in _blocks(_plain(text)) if _KERNEL.search(each.text)]
    return PastedText(_whole(TextExcerpt(each.line, each.text, _error_in_python(each.text)) for each in blocks))


def missing_in(text: str) -> str | None:
    """What a program in MLIR lacks when it was cut out of a larger one; None for a whole one."""
    open_: list[tuple[str, int]] = []
    used: dict[str, int] = {}
    defined = set(re.findall(r"^[ \t]*([#!][\w$]+) *=", text, re.M))
    for number, line in enumerate(text.splitlines(), 1):
        line = _OF_NOTHING.sub("", line).partition("//")[0]
        if line.strip() in ("...", "…"):
            return f"line {number} says that something was left out"
        if not open_ and _INSIDE.match(line):
            return f"line {number} belongs into a function, whose beginning is missing: {line.strip()[:60]}"
        for alias in _ALIAS.findall(line):
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


def _error_in_python(text: str) -> str | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno} is not Python: {error.msg}"
    return None


def _whole(programs: Iterable[TextExcerpt]) -> tuple[TextExcerpt, ...]:
    """The programs that lack nothing; the first one when each lacks something."""
    found = tuple(programs)
    return tuple(program for program in found if program.lacks is None) or found[:1]


def _plain(text: str) -> str:
    """The text without tags of HTML, and without the `> ` of a quotation."""
    text = _TAG.sub(lambda match: " " * len(match[0]), text.replace("\r\n", "\n"))
    lines = text.splitlines(keepends=True)
    quoted = [line for line in lines if line.strip()]
    if quoted and all(line.startswith(">") for line in quoted):
        return "".join(re.sub(r"^> ?", "", line) for line in lines)
    return text


def _lines(calls: Iterable[ShellCommand]) -> tuple[TextExcerpt, ...]:
    commands: dict[str, TextExcerpt] = {}
    for call in calls:
        if any(word.startswith(("-", "@")) for word in call.words):
            settings = [f"{name}={shlex.quote(value)}" for name, value in call.env]
            stdin = ["<", shlex.quote(call.stdin)] if call.stdin else []
            line = " ".join([*settings, call.tool, *map(shlex.quote, call.words), *stdin])
            commands.setdefault(line, TextExcerpt(call.line, line))
    return tuple(commands.values())


def _blocks(text: str) -> list[TextExcerpt]:
    """The fenced blocks, or the whole text when it has none."""
    fences = [TextExcerpt(_line(text, fence.start("body")), fence["body"]) for fence in _FENCE.finditer(text)]
    return fences or [TextExcerpt(1, text)]


def _mlir_programs(text: str) -> Iterator[TextExcerpt]:
    end = 0
    for fence in _FENCE.finditer(text):
        yield from _regions(text, end, fence.start())
        language, body = fence["language"].lower(), fence["body"]
        start = fence.start("body")
        if language == "mlir" and not _DUMP.search(body) and _OPERATION.search(body):
            yield from _checked([TextExcerpt(_line(text, start), body)])
        else:
            yield from _regions(text, start, fence.end("body"))
        end = fence.end()
    yield from _regions(text, end, len(text))


def _checked(programs: Iterable[TextExcerpt]) -> Iterator[TextExcerpt]:
    return (TextExcerpt(each.line, each.text, missing_in(each.text)) for each in programs)


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
        if _FUNCTION.search(region):
            yield from _checked([TextExcerpt(number + index, region)])
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


def _unique(programs: Iterable[TextExcerpt]) -> Iterator[TextExcerpt]:
    seen: set[str] = set()
    for program in programs:
        key = "".join(program.text.split())
        if key not in seen:
            seen.add(key)
            yield TextExcerpt(program.line, program.text.rstrip() + "\n", program.lacks)
