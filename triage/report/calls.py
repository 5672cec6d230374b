"""How a reproducer is compiled by someone who has nothing but the compiler."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from triage.model.case import CommandLine, Kernel
from triage.reduce.reproducer import Reproducer
from triage.report.kernel_script import KERNEL_SCRIPT

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Call:
    """install: what pip is given, None where it cannot bring the compiler; line: the command as a README has it; words:
    the same for programs; variable: which names another compiler in the script; before: lines of the script; run: the
    command there; replaces: whether the shell may give way to it; remark: what is said of it, a sentence.
    """

    install: str | None
    line: str
    words: tuple[str, ...]
    before: tuple[str, ...]
    run: str
    remark: str
    replaces: bool = True


def call_of(one: Reproducer) -> Call:
    """The call for the family of the reproducer's compiler."""
    match one.reduced.case.how:
        case Kernel():
            return _kernel(one)
        case CommandLine() as how:
            return _command(one, how)
    words = (one.program, *one.options, one.source, "-o", "/dev/null")
    variable = re.sub(r"\W", "_", one.program).upper()
    run = f'"${{{variable}:-{one.program}}}" {shlex.join(words[1:])}'
    remark = f" The flags are spelled as that version\n# spells them; {variable} names another compiler."
    return Call(one.package, shlex.join(words), words, (), run, remark)


def _kernel(one: Reproducer) -> Call:
    """The script beside the kernel. What Triton imports and its wheel does not require is named."""
    words = ("python3", KERNEL_SCRIPT)
    install = one.package and " ".join((one.package, *_unnamed(one.bad.version)))
    check = '"${PYTHON:-python3}" -c "import triton" || exit 127'
    remark = "\n# PYTHON names the interpreter that has it."
    return Call(install, shlex.join(words), words, (check,), f'"${{PYTHON:-python3}}" {KERNEL_SCRIPT}', remark)


def _unnamed(version: str | None) -> tuple[str, ...]:
    try:
        known = Version(version or "")
    except InvalidVersion:
        return ()
    if known < Version("3.0"):
        return ("torch", "numpy", "setuptools")
    return ("setuptools",) if known < Version("3.3") else ()


def _command(one: Reproducer, how: CommandLine) -> Call:
    """The recipe's own command line, its places as variables of the shell."""
    words = one.options
    told = {"input": one.source, "output": "out", "python": "python3"}
    filled = tuple(_PLACE.sub(lambda found: told.get(found[1], found[0]), word) for word in words)
    before = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
    prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
    if how.packages:
        remark = "\n# PYTHON names the interpreter that has it."
        if any("{toolchain}" in word for word in words):
            before.append(f"TOOLCHAIN={prefix} || exit 127")
        if not words[0].startswith("{"):
            before.append(f'PATH="{prefix}/bin:$PATH"')
    else:
        remark = "\n# TOOLCHAIN names the compiler's folder, or the compiler itself."
        before.append(': "${TOOLCHAIN:?where is the compiler}"')
    run = " ".join(_shell_word(word, one.source) for word in words)
    install = one.package and shlex.join((one.package, *how.packages[1:]))
    return Call(install, shlex.join(filled), filled, tuple(before), run, remark, replaces=False)


def _shell_word(word: str, source: str) -> str:
    """A word for the shell, variables where its places are."""
    places = {"input": source, "output": '"$OUT/out"', "python": '"${PYTHON:-python3}"', "toolchain": '"$TOOLCHAIN"'}
    parts = _PLACE.split(word)  # texts and names in turn
    quoted = (shlex.quote(text) if text else "" for text in parts[::2])
    names = [places.get(name, shlex.quote(f"{{{name}}}")) for name in parts[1::2]]
    return "".join(text + name for text, name in zip(quoted, [*names, ""], strict=True)) or "''"
