"""Find programs and calls of compilers in an issue, a gist, a log or a shell's history
that was pasted as text.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from triage.compilers.recipe_input import PastedText, ShellCommand, TextExcerpt
from triage.model.pass_name import IR_DUMP_LINE

# No pattern here takes quadratic time: each run of characters is tried from its begin
# only, and possessive ones never again.
IREE_TOOLS = re.compile(
    r"(?:(?<![^\s\"'`()|;&<>=])[^\s\"'`()|;&<>=]*[\\/]|(?<![\w.-]))"
    r"(?P<tool>iree-compile|iree-opt|ireec)"
    r"(?:-[\d.]+)?(?:\.exe)?(?=[\s\"'`]|$)"
    r"|-m\s+iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?(?=\s)"
)
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS = frozenset({"|", "||", "&&", ";", "&", "|&", ";;", "#"})
_REDIRECTION = re.compile(r"\d*(>&|&>>?|>\||>>?|<<?<?)(.*)", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)[\\^`][ \t]*\r?\n(?:[ \t]*(?:>[ \t]+)?)")
_OPTION = re.compile(r"\s*(?:>\s+)?--?[a-z][\w-]*[= \n]")
_MOST_LINES = 100  # of a call
_LONGEST_LINE = 1 << 16  # characters of a call
_MOST_CALLS = 5  # in one line
_FENCE = re.compile(
    r"[ \t>]*+(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+-]*+)[^\n`]*+\n?"
)
_TAG = re.compile(r"</?(?:details|summary|pre|code|br|p)\b[^<>\n]*>", re.IGNORECASE)
_BEGINS = re.compile(
    r"^[ \t]*(?:builtin\.)?(?:module\b(?: *@\S+)?(?: attributes *\{.*\{| "
    r"*\{)|func\.func\b|util\.func\b|hal\.executable\b"
    r"|flow\.executable\b|stream\.executable\b|hw\.module\b|ml_program\.\w+"
    r'|"builtin\.module"|[#!][\w$.]+ *= *\S)'
)
_FUNCTION = re.compile(
    (
        r"^(?>.*?\b(?:(?:func|llvm|util)\.func|(?:hal|flow|stream)\.executable"
        r"|hw\.module|func)\b).*[@{]"
    ),
    re.M,
)
_OPERATION = re.compile(
    r'^[ \t]*(?:%[\w#:, %]+= *)?"?[a-z_]\w*(?:\.\w+)+"?[ (<@{]', re.M
)
_DUMP = re.compile(rf"^{IR_DUMP_LINE}", re.M)
_LLVM_IR = re.compile(r"^(?:define\b[^\n]*@|target triple = |; ModuleID = )", re.M)
_TRITON_IR = re.compile(r"\btt\.func\b")
_JAX = re.compile(r"^[ \t]*(?:>>> )?(?:import jax\b|from jax\b)", re.M)
_HLO = re.compile(r"\s*HloModule\b")
_CHIP = re.compile(r"\b(gfx(?:9\w{2}|1[0-2]\w{2})|sm_\d{2,3}a?)\b|\"cuda:(\d{2,3})\"")
_CHIPS_OF_CARDS = {
    r"\bV100\b|\bTitan V\b": "sm_70",
    r"\bT4\b": "sm_75",
    r"\bA100\b": "sm_80",
    r"\bA10G?\b|\bRTX ?30\d0\b": "sm_86",
    r"\bL4\b|\bL40S?\b|\bRTX ?40\d0\b": "sm_89",
    r"\bH[12]00\b": "sm_90",
    r"\bG?B[23]00\b": "sm_100",
    r"\bRTX ?50\d0\b": "sm_120",
    r"\bMI2[15]0X?\b": "gfx90a",
    r"\bMI3(?:00[AX]?|25X)\b": "gfx942",
    r"\bMI35[05]X\b": "gfx950",
    r"\b7900 ?XTX?\b": "gfx1100",
    r"\b9070(?: ?XT)?\b": "gfx1201",
}
_IMPORTS = {"triton": "import triton\n", "tl": "import triton.language as tl\n"}
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.M)
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.?)*+"?')  # brackets and names in it mean nothing
_CLOSING = {")": "(", "]": "[", "}": "{"}
_Block = tuple[int, str]
"""The number of its first line, from 1, and its text."""


def calls_in(text: str, tools: re.Pattern[str] = IREE_TOOLS) -> Iterator[ShellCommand]:
    """Yield the calls of compilers in a text: behind prompts and wrappers, in pipes,
    with redirections, on several lines.
    """
    for number, line in _logical_lines(text, tools):
        end: int | None = None
        for match in islice(tools.finditer(line), _MOST_CALLS):
            is_repeated = end is not None and not line[end : match.start()].strip()
            end = match.end()
            if is_repeated:  # Python's `Invoked with:` prints the name and the path
                continue
            before, after = line[: match.start()], line[end:]
            if line[:end].count("`") % 2:  # code in a sentence
                after = after.partition("`")[0]
            tool = (match["tool"] or "iree-compile").replace("ireec", "iree-compile")
            yield _call(
                tool,
                _split(before),
                _split(after.removeprefix('"').removeprefix("'")),
                tools,
                number,
            )


def _logical_lines(text: str, programs: re.Pattern[str]) -> Iterator[_Block]:
    """Yield the calls with the lines that a backslash continues, and those that hold
    only further options.
    """
    lines = text.splitlines(keepends=True)
    index = 0
    while index < len(lines):
        first, joined = index, lines[index]
        index += 1
        if len(joined) > _LONGEST_LINE or not programs.search(joined):
            continue
        while index < len(lines) and index - first < _MOST_LINES:
            is_open = re.search(r"(?<!\\)[\\^`][ \t]*\r?\n\Z", joined) is not None
            if not (is_open or _OPTION.match(lines[index])):
                break
            joined += lines[index]
            index += 1
        yield first + 1, re.sub(r"\n\s*(?:>\s+)?", " ", _CONTINUED.sub(" ", joined))


def _split(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        return text.split()


def _call(
    tool: str, before: list[str], after: list[str], tools: re.Pattern[str], line: int
) -> ShellCommand:
    words: list[str] = []
    is_piped = len(before) >= 3 and before[-1] == "|" and Path(before[-3]).name == "cat"
    # `model.mlir` of `cat model.mlir | iree-compile -`
    if is_piped:
        stdin = before[-2]
    else:
        stdin = None
    rest = iter(after[1:] if after and tools.fullmatch(after[0]) else after)
    for word in rest:
        if word in _ENDS:
            break
        redirection = _REDIRECTION.fullmatch(word)
        if redirection:
            if words and words[-1].isdigit() and not redirection[2]:
                words.pop()  # `2>&1` and `2> log`
            target = redirection[2] or next(rest, "")
            if redirection[1] == "<":
                stdin = target
        else:
            words.append(word)
    ends = [
        index for index, word in enumerate(before) if word in _ENDS and word != "&&"
    ]
    if ends:
        own = before[ends[-1] + 1 :]
    else:
        own = before
    env = tuple(
        (match[1], match[2]) for word in own if (match := _SETTING.fullmatch(word))
    )
    return ShellCommand(tool, tuple(words), env, stdin, line)


def read_mlir(text: str) -> PastedText:
    """Find the MLIR programs and the calls of IREE's compiler."""
    text = _plain(text)
    programs = [
        (line, program)
        for line, program in _mlir_programs(text)
        if not _TRITON_IR.search(program)
    ]
    complete = [
        (line, program) for line, program in programs if _FUNCTION.search(program)
    ]
    return PastedText(_excerpts(complete or programs), _different(calls_in(text)))


def read_llvm(text: str, tools: re.Pattern[str]) -> PastedText:
    """Find LLVM IR or MLIR, and the calls of LLVM's and MLIR's tools. Empty without
    such a call.
    """
    text = _plain(text)
    commands = _different(calls_in(text, tools))
    if commands:
        llvm = [
            (line, block) for line, block in _blocks(text) if _LLVM_IR.search(block)
        ]
    else:
        llvm = []
    programs = _excerpts(llvm, partial(missing_in, comment=";")) or _excerpts(
        _mlir_programs(text) if commands else ()
    )
    return PastedText(programs, commands)


def read_kernels(text: str) -> PastedText:
    """Find the Python programs that define a Triton kernel, and the IR of Triton."""
    text = _plain(text)
    kernels = _excerpts(_python_blocks(text, _KERNEL), _error_in)
    if kernels:
        return PastedText(tuple(map(_with_imports, kernels)))
    return PastedText(
        _excerpts(
            (line, program)
            for line, program in _mlir_programs(text)
            if _TRITON_IR.search(program)
        )
    )


def _with_imports(kernel: TextExcerpt) -> TextExcerpt:
    """Add the imports of Triton that every kernel has, and that people leave out."""
    missing = [
        line
        for name, line in _IMPORTS.items()
        if re.search(rf"\b{name}\.", kernel.text)
        and not re.search(rf"\b(?:import|as) {name}\b(?!\.\S+ as )", kernel.text)
    ]
    return replace(kernel, text="".join(missing) + kernel.text)


def read_jax(text: str) -> PastedText:
    """Find the Python programs that compile functions with JAX, and programs in HLO."""
    text = _plain(text)
    programs = _excerpts(_python_blocks(text, _JAX), _error_in)
    hlo = ((line, block) for line, block in _blocks(text) if _HLO.match(block))
    return PastedText(programs or _excerpts(hlo))


def chip_in(text: str) -> str | None:
    """Return the first chip that a text names, by itself or by a card that has it.

    >>> chip_in("works on A100, fails on V100 (sm_70)")
    'sm_70'
    >>> chip_in("wrong on a Titan V and on V100")
    'sm_70'
    """
    match = _CHIP.search(text)
    if match:
        return match[1] or f"sm_{match[2]}"
    card = re.search("|".join(f"(?:{card})" for card in _CHIPS_OF_CARDS), text)
    if card is None:
        return None
    return next(
        chip for name, chip in _CHIPS_OF_CARDS.items() if re.fullmatch(name, card[0])
    )


def _python_blocks(text: str, marks: re.Pattern[str]) -> Iterator[_Block]:
    """Yield the blocks with a mark, without the indent of a list and the prompts of an
    interpreter.
    """
    for line, block in _blocks(text):
        if not marks.search(block):
            continue
        code = textwrap.dedent(block)
        first, _, rest = code.partition("\n")
        if first.startswith("@"):  # it was copied without its indent
            code = f"{first}\n{textwrap.dedent(rest)}"
        typed = re.findall(r"^(?:>>>|\.\.\.)(?: (.*))?$", code, re.M)
        if ">>> " in code and typed:
            code = "\n".join(typed) + "\n"
        yield line, code


def missing_in(text: str, comment: str = "//") -> str | None:
    """Say what a program in MLIR or LLVM IR lacks, if it was cut out of a larger
    one.
    """
    open_: list[tuple[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = _QUOTED.sub("", line).partition(comment)[0]
        if line.strip() in ("...", "…"):
            return f"line {number} says that something was left out"
        for mark in line:
            if mark in "([{":
                open_.append((mark, number))
            elif mark in _CLOSING and (not open_ or open_.pop()[0] != _CLOSING[mark]):
                return f"line {number}: nothing opens the `{mark}`"
    if open_:
        return (
            f"the end is missing: nothing closes the `{open_[-1][0]}` of line "
            f"{open_[-1][1]}"
        )
    return None


def _error_in(text: str) -> str | None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno} is not Python: {error.msg}"
    # a null character, deep nesting
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it is not Python: {error}"
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1:
            for statement in body:
                if _is_ellipsis(statement):
                    return f"line {statement.lineno} says that something was left out"
    return None


def _is_ellipsis(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    return isinstance(value, ast.Constant) and value.value is ...


def _excerpts(
    programs: Iterable[_Block], lacks: Callable[[str], str | None] = missing_in
) -> tuple[TextExcerpt, ...]:
    """Return different programs that lack nothing; the first one when each lacks
    something.
    """
    found: dict[str, TextExcerpt] = {}
    for line, text in programs:
        found.setdefault(
            "".join(text.split()), TextExcerpt(line, text.rstrip() + "\n", lacks(text))
        )
    excerpts = tuple(found.values())
    return (
        tuple(excerpt for excerpt in excerpts if excerpt.lacks is None) or excerpts[:1]
    )


def _different(calls: Iterable[ShellCommand]) -> tuple[ShellCommand, ...]:
    commands: dict[str, ShellCommand] = {}
    for call in calls:
        if any(word.startswith(("-", "@")) for word in call.words):
            commands.setdefault(call.text, call)
    return tuple(commands.values())


def _plain(text: str) -> str:
    """Return the text without tags of HTML, and without the `> ` of a quotation."""
    text = _TAG.sub(lambda match: " " * len(match[0]), text.replace("\r\n", "\n"))
    is_quoted = all(line.startswith(">") for line in text.splitlines() if line.strip())
    if is_quoted:
        return re.sub(r"^> ?", "", text, flags=re.M)
    return text


def _blocks(text: str) -> list[_Block]:
    """Return the fenced blocks, or the whole text when it has none."""
    lines = text.splitlines(keepends=True)
    return [
        (begin + 1, "".join(lines[begin:end])) for _, begin, end in _fences(lines)
    ] or [(1, text)]


def _fences(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the language, the first line and the end of each fenced block. What nothing
    closes opens none.
    """
    closing: dict[str, list[int]] = {}
    for index in reversed(range(len(lines))):
        closing.setdefault(lines[index].strip(" \t>\n"), []).append(index)
    index = 0
    while index < len(lines):
        fence = _FENCE.fullmatch(lines[index])
        index += 1
        if fence:
            ends = closing.get(fence["mark"], [])
        else:
            ends = []
        while ends and ends[-1] < index:
            ends.pop()
        if fence and ends:
            yield fence["language"].lower(), index, ends[-1]
            index = ends[-1] + 1


def _mlir_programs(text: str) -> Iterator[_Block]:
    lines, end, parts = text.splitlines(keepends=True), 0, list[tuple[str, int, int]]()
    for language, begin, stop in _fences(lines):
        parts += [("", end, begin - 1), (language, begin, stop)]
        end = stop + 1
    for language, begin, stop in [*parts, ("", end, len(lines))]:
        part = "".join(lines[begin:stop])
        if language == "mlir" and not _DUMP.search(part) and _OPERATION.search(part):
            yield begin + 1, part
        else:
            yield from _regions(lines[begin:stop], begin + 1)


def _regions(lines: list[str], first: int) -> Iterator[_Block]:
    """Yield programs among other lines: each begins like one and ends where its braces
    are balanced.
    """
    index = 0
    while index < len(lines):
        if not _BEGINS.match(lines[index]) or (index and _DUMP.match(lines[index - 1])):
            index += 1
            continue
        stop = _end_of(lines, index)
        region = "".join(lines[index:stop])
        if _FUNCTION.search(region):
            yield first + index, region
        index = max(len(lines) if stop is None else stop, index + 1)


def _end_of(lines: list[str], first: int) -> int | None:
    """Return the index behind a program that begins at `first`: aliases and top-level
    operations with balanced braces.

    Returns None if the last one is never closed.
    """
    depth, last = 0, first
    for index in range(first, len(lines)):
        line = lines[index]
        is_outside = (
            depth == 0 and index > first and line.strip() and not _BEGINS.match(line)
        )
        if is_outside and not line.startswith(
            (" ", "\t", "}", "util.", "ml_program.", "//", "{-#")
        ):
            break
        depth += line.count("{") - line.count("}")
        if depth <= 0 and line.strip():
            depth, last = 0, index + 1
    if depth <= 0:
        return last
    return None
