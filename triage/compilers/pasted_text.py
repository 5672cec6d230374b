"""Find programs and calls of compilers in a pasted text, such as an issue, a gist, a
log or a shell's history.
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

# Patterns for lines of any length must not take quadratic time: a run of characters is
# matched from its beginning only, or possessively.
IREE_TOOLS = re.compile(
    r"(?:(?<![^\s\"'`()|;&<>=])[^\s\"'`()|;&<>=]*[\\/]|(?<![\w.-]))"
    r"(?P<tool>iree-compile|iree-opt|ireec)"
    r"(?:-[\d.]+)?(?:\.exe)?(?=[\s\"'`]|$)"
    r"|-m\s+iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?(?=\s)"
)
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS_OF_CALL = frozenset({"|", "||", "&&", ";", "&", "|&", ";;", "#"})
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
_PROGRAM_BEGINS = re.compile(
    r"^[ \t]*(?:builtin\.)?(?:module\b(?: *@\S+)?(?: attributes *\{.*\{| "
    r"*\{)|func\.func\b|util\.func\b|hal\.executable\b"
    r"|flow\.executable\b|stream\.executable\b|hw\.module\b|ml_program\.\w+"
    r'|"builtin\.module"|[#!][\w$.]+ *= *\S)'
)
_CONTINUES_PROGRAM = (" ", "\t", "}", "util.", "ml_program.", "//", "{-#")
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
_HLO = re.compile(r"\A\s*HloModule\b")
_CHIP = re.compile(
    r"\b(gfx(?:9\w{2}|1[0-2]\w{2})|sm_\d{2,3}a?)\b|\"cuda:(\d{2,3})\"", re.IGNORECASE
)
# Short names in small letters may be variables.
_CARDS = {
    r"(?i:V100|Titan V)": "sm_70",
    r"T4": "sm_75",
    r"(?i:A100)": "sm_80",
    r"A10G?|(?i:RTX[ -]?30\d0)": "sm_86",
    r"L4|(?i:L40S?|RTX[ -]?40\d0)": "sm_89",
    r"(?i:G?H[12]00)": "sm_90",
    r"(?i:G?B[23]00)": "sm_100",
    r"(?i:RTX[ -]?50\d0)": "sm_120",
    r"(?i:MI2[15]0X?)": "gfx90a",
    r"(?i:MI3(?:00[AX]?|25X?))": "gfx942",
    r"(?i:MI35[05]X?)": "gfx950",
    r"(?i:7900 ?XTX?)": "gfx1100",
    r"(?i:9070(?: ?XT)?)": "gfx1201",
}
_CHIPS_OF_CARDS = {
    re.compile(rf"(?<![\w%@$.])(?:{card})(?!\w)"): chip for card, chip in _CARDS.items()
}
_CODE = re.compile(r"`([^`\n]+)`")
_PROMPT = re.compile(r"[$%>#\s]*(?:(?:export|env|set|setenv|%env)\s+)?")
_VARIABLE = re.compile(
    r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\s*=(?!=)\s*"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s`;&|,)]*)\s*"
)
_ENVIRON = re.compile(
    r"environ(?:\.setdefault\(|\[)\s*[\"'](\w+)[\"']\s*(?:\]\s*=|,)\s*"
    r"([\"'][^\"'\n]*[\"'])"
)
_IMPORTS = {"triton": "import triton\n", "tl": "import triton.language as tl\n"}
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.M)
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.?)*+"?')  # brackets and names in it mean nothing
_CLOSING = {")": "(", "]": "[", "}": "{"}
_Block = tuple[int, str]
"""A part of a text: the number of its first line, from 1, and the part itself."""


def calls_in(text: str, tools: re.Pattern[str] = IREE_TOOLS) -> Iterator[ShellCommand]:
    """Yield the calls of compilers in a text. Prompts, wrappers, pipes and redirections
    may surround a call, and it may have several lines.
    """
    for number, line in _lines_with_calls(text, tools):
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
            own_words = _words(before)
            words = _words(after.removeprefix('"').removeprefix("'"))
            if words and tools.fullmatch(words[0]):
                del words[0]
            yield _call(tool, own_words, words, number)


def _lines_with_calls(text: str, tools: re.Pattern[str]) -> Iterator[_Block]:
    """Yield each line that names a tool, joined with the lines that continue it after a
    backslash and the lines that begin with an option.
    """
    lines = text.splitlines(keepends=True)
    index = 0
    while index < len(lines):
        first, joined = index, lines[index]
        index += 1
        if len(joined) > _LONGEST_LINE or not tools.search(joined):
            continue
        while index < len(lines) and index - first < _MOST_LINES:
            is_open = re.search(r"(?<!\\)[\\^`][ \t]*\r?\n\Z", joined) is not None
            if not (is_open or _OPTION.match(lines[index])):
                break
            joined += lines[index]
            index += 1
        yield first + 1, re.sub(r"\n\s*(?:>\s+)?", " ", _CONTINUED.sub(" ", joined))


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, such as an apostrophe
        return text.split()


def _call(tool: str, before: list[str], after: list[str], line: int) -> ShellCommand:
    """Return the call of a tool. `before` and `after` are the words around the tool's
    name.
    """
    stdin: str | None = None
    # `model.mlir` of `cat model.mlir | iree-compile -`
    if len(before) >= 3 and before[-1] == "|" and Path(before[-3]).name == "cat":
        stdin = before[-2]
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
    return ShellCommand(tool, tuple(words), tuple(env), stdin, line)


def read_mlir(text: str) -> PastedText:
    """Find MLIR programs, except those of Triton, and calls of IREE's compiler."""
    text = _plain(text)
    programs = [
        block for block in _mlir_programs(text) if not _TRITON_IR.search(block[1])
    ]
    with_function = _matching(programs, _FUNCTION)
    commands = _distinct_calls(calls_in(text))
    return PastedText(_excerpts(with_function or programs), commands)


def read_llvm(text: str, tools: re.Pattern[str]) -> PastedText:
    """Find LLVM IR or MLIR, and the calls of LLVM's and MLIR's tools. A text without
    such a call is not read for programs.
    """
    text = _plain(text)
    commands = _distinct_calls(calls_in(text, tools))
    if not commands:
        return PastedText()
    llvm = _matching(_blocks(text), _LLVM_IR)
    programs = _excerpts(llvm, partial(missing_in, comment=";"))
    return PastedText(programs or _excerpts(_mlir_programs(text)), commands)


def read_kernels(text: str) -> PastedText:
    """Find the Python programs that define a Triton kernel. If there are none, find
    Triton's IR.
    """
    text = _plain(text)
    kernels = _excerpts(_python_blocks(text, _KERNEL), _error_in)
    if kernels:
        return PastedText(tuple(map(_with_imports, kernels)))
    return PastedText(_excerpts(_matching(_mlir_programs(text), _TRITON_IR)))


def _with_imports(kernel: TextExcerpt) -> TextExcerpt:
    """Add the imports of Triton that every kernel has, and that people leave out."""
    missing = [
        line
        for name, line in _IMPORTS.items()
        if re.search(rf"\b{name}\.", kernel.text)
        and not re.search(rf"\b(?:import|as) {name}\b(?!\.\S+ as )", kernel.text)
    ]
    return replace(kernel, text="".join(missing) + kernel.text)


def imports_jax(text: str) -> bool:
    """Return whether a program in Python imports JAX."""
    return _JAX.search(text) is not None


def read_jax(text: str) -> PastedText:
    """Find the Python programs that import JAX. If there are none, find HLO."""
    text = _plain(text)
    programs = _excerpts(_python_blocks(text, _JAX), _error_in)
    return PastedText(programs or _excerpts(_matching(_blocks(text), _HLO)))


def _matching(blocks: Iterable[_Block], pattern: re.Pattern[str]) -> list[_Block]:
    return [block for block in blocks if pattern.search(block[1])]


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
    found = {
        card.start(): chip
        for pattern, chip in _CHIPS_OF_CARDS.items()
        for card in islice(pattern.finditer(text), 1)
    }
    return found[min(found)] if found else None


def variables_in(text: str, programs: Iterable[TextExcerpt]) -> dict[str, str]:
    """Return the variables that a text sets: in lines and code that begin with them,
    and in Python. The other lines of its programs are not read.

    >>> variables_in("run `TRITON_F32_DEFAULT=ieee python a.py`", ())
    {'TRITON_F32_DEFAULT': 'ieee'}
    """
    found = dict(_ENVIRON.findall(text))
    for program in programs:
        text = text.replace(program.text, "")
    for line in (*text.splitlines(), *_CODE.findall(text)):
        place = _PROMPT.match(line)
        assert place
        while setting := _VARIABLE.match(line, place.end()):
            found[setting[1]] = setting[2]
            place = setting
    return {name: value.strip("\"'") for name, value in found.items()}


def _python_blocks(text: str, marks: re.Pattern[str]) -> Iterator[_Block]:
    """Yield the blocks that match `marks`, without a common indent and without the
    prompts of an interpreter.
    """
    for line, block in _matching(_blocks(text), marks):
        code = textwrap.dedent(block)
        first, _, rest = code.partition("\n")
        if first.startswith("@"):  # it was copied without its indent
            code = f"{first}\n{textwrap.dedent(rest)}"
        typed = re.findall(r"^(?:>>>|\.\.\.)(?: (.*))?$", code, re.M)
        if ">>> " in code and typed:
            code = "\n".join(typed) + "\n"
        yield line, code


def missing_in(text: str, comment: str = "//") -> str | None:
    """Say which part of a program in MLIR or LLVM IR is missing, if one is: brackets
    that do not match, or a line that says so.
    """
    open_: list[tuple[str, int]] = []  # brackets, with their lines
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
        mark, number = open_[-1]
        return f"the end is missing: nothing closes the `{mark}` of line {number}"
    return None


def _error_in(text: str) -> str | None:
    """Say why a text is not a complete Python program, if it is not."""
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
    programs: Iterable[_Block], missing: Callable[[str], str | None] = missing_in
) -> tuple[TextExcerpt, ...]:
    """Return the complete programs, each once. If all are incomplete, return the first.
    `missing` says what a program lacks.
    """
    found: dict[str, TextExcerpt] = {}
    for line, text in programs:
        without_spaces = "".join(text.split())
        excerpt = TextExcerpt(line, text.rstrip() + "\n", missing(text))
        found.setdefault(without_spaces, excerpt)
    excerpts = tuple(found.values())
    complete = tuple(excerpt for excerpt in excerpts if excerpt.lacks is None)
    return complete or excerpts[:1]


def _distinct_calls(calls: Iterable[ShellCommand]) -> tuple[ShellCommand, ...]:
    """Return each call with an option or a response file once."""
    commands: dict[str, ShellCommand] = {}
    for call in calls:
        if any(word.startswith(("-", "@")) for word in call.words):
            commands.setdefault(call.text, call)
    return tuple(commands.values())


def _plain(text: str) -> str:
    """Replace HTML tags by spaces. If all lines are quoted, remove the `> `."""
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
    """Yield the language of each fenced block, and the range of lines in it. A fence
    that nothing closes does not begin a block.
    """
    closing: dict[str, list[int]] = {}  # mark -> indices of its lines, the last first
    for index in reversed(range(len(lines))):
        closing.setdefault(lines[index].strip(" \t>\n"), []).append(index)
    index = 0
    while index < len(lines):
        fence = _FENCE.fullmatch(lines[index])
        index += 1
        if not fence:
            continue
        ends = closing.get(fence["mark"], [])
        while ends and ends[-1] < index:
            ends.pop()
        if ends:
            yield fence["language"].lower(), index, ends[-1]
            index = ends[-1] + 1


def _mlir_programs(text: str) -> Iterator[_Block]:
    """Yield the fenced blocks in MLIR, and the programs in other blocks and outside."""
    lines = text.splitlines(keepends=True)
    end = 0
    parts: list[tuple[str, int, int]] = []
    for language, begin, stop in _fences(lines):
        parts += [("", end, begin - 1), (language, begin, stop)]
        end = stop + 1
    parts.append(("", end, len(lines)))
    for language, begin, stop in parts:
        part = "".join(lines[begin:stop])
        if language == "mlir" and not _DUMP.search(part) and _OPERATION.search(part):
            yield begin + 1, part
        else:
            yield from _unfenced_programs(lines[begin:stop], begin + 1)


def _unfenced_programs(lines: list[str], first: int) -> Iterator[_Block]:
    """Yield the programs with a function among other lines. `first` is the number of
    the first line. Dumps of IR are skipped.
    """
    index = 0
    while index < len(lines):
        is_dump = index > 0 and _DUMP.match(lines[index - 1])
        if is_dump or not _PROGRAM_BEGINS.match(lines[index]):
            index += 1
            continue
        stop = _end_of_program(lines, index)
        program = "".join(lines[index:stop])
        if _FUNCTION.search(program):
            yield first + index, program
        index = max(stop, index + 1)


def _end_of_program(lines: list[str], first: int) -> int:
    """Return the index behind the program that begins at `first`: aliases and top-level
    operations with balanced braces. It is `len(lines)` if a brace is never closed.
    """
    depth, end = 0, first
    for index in range(first, len(lines)):
        line = lines[index]
        is_top_level = depth == 0 and index > first and line.strip()
        continues = _PROGRAM_BEGINS.match(line) or line.startswith(_CONTINUES_PROGRAM)
        if is_top_level and not continues:
            break
        depth += line.count("{") - line.count("}")
        if depth <= 0 and line.strip():
            depth, end = 0, index + 1
    return end if depth <= 0 else len(lines)
