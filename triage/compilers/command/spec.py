"""A compiler behind a command: its spec, as recipe keys, and as a shell command without triage."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from triage.compilers.base import RULES_FILE, StandaloneCall, StandaloneCompile
from triage.compilers.invocation import fill_placeholders
from triage.model.case import Case, CaseSpec

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class VersionRule:
    """How to ask a compiler that is not a package for its version: a command, and a pattern for the version in its output."""

    run: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """A compiler behind a command. words: the command line, program first, with the placeholders `{input}`, `{output}`,
    `{toolchain}`, `{python}` and `{flags}`; packages: requirements of the package index, first the one whose releases are
    the timeline; version: None for a package; strict: parse errors are failures.
    """

    words: tuple[str, ...]
    packages: tuple[str, ...] = ()
    version: VersionRule | None = None
    strict: bool = False

    @property
    def parse_errors_fail(self) -> bool:
        return self.strict


def command_keys(case: Case) -> Iterator[str]:
    """The recipe keys of a command, one YAML line each; reading them gives the same spec."""
    spec = case.spec
    assert isinstance(spec, CommandSpec)
    if spec.packages:
        yield f"package: {json.dumps(spec.packages, ensure_ascii=False)}"
    yield f"command: {json.dumps(spec.words, ensure_ascii=False)}"
    if spec.version is not None:
        run, pattern = (json.dumps(part, ensure_ascii=False) for part in (spec.version.run, spec.version.pattern))
        yield f"version: {{run: {run}, pattern: {pattern}}}"
    if spec.strict == is_mlir(case.input.path.name):
        yield f"parse_errors: {'fail' if spec.strict else 'untestable'}"
    if case.rules is not None:
        yield f"rules: {RULES_FILE}"


def is_mlir(input_name: str) -> bool:
    """Whether an input is MLIR, whose text changes from version to version, so that many cannot read it."""
    return input_name.endswith((".mlir", ".mlirbc"))


def shell_call(task: StandaloneCompile) -> StandaloneCall:
    """The recipe's own command line, its placeholders as shell variables."""
    spec = task.case.spec
    assert isinstance(spec, CommandSpec)
    words = task.options
    values = {"input": task.source, "output": "out", "python": "python3"}
    filled = tuple(fill_placeholders(word, values) for word in words)
    before = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
    prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
    if spec.packages:
        remark = "\n# Set PYTHON to the interpreter that has it."
        if any("{toolchain}" in word for word in words):
            before.append(f"TOOLCHAIN={prefix} || exit 127")
        if not words[0].startswith("{"):
            before.append(f'PATH="{prefix}/bin:$PATH"')
    else:
        remark = "\n# Set TOOLCHAIN to the compiler's folder, or to the compiler itself."
        before.append(': "${TOOLCHAIN:?set it to the path of the compiler}"')
    run = " ".join(_shell_word(word, task.source) for word in words)
    install = task.requirement and shlex.join((task.requirement, *spec.packages[1:]))
    return StandaloneCall(install, filled, run, remark, tuple(before), replaces=False)


def _shell_word(word: str, source: str) -> str:
    """A word for the shell, with variables for its placeholders."""
    places = {"input": source, "output": '"$OUT/out"', "python": '"${PYTHON:-python3}"', "toolchain": '"$TOOLCHAIN"'}
    parts = _PLACEHOLDER.split(word)  # texts and names in turn
    quoted = (shlex.quote(text) if text else "" for text in parts[::2])
    names = [places.get(name, shlex.quote(f"{{{name}}}")) for name in parts[1::2]]
    return "".join(text + name for text, name in zip(quoted, [*names, ""], strict=True)) or "''"
