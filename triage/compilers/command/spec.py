"""A compiler behind a command: what its recipes say, and how a reproducer repeats it in a shell."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from triage.compilers.invocation import fill_placeholders
from triage.compilers.repro_script import RULES_FILE, ReproScript, StandaloneCall, StandaloneCompile
from triage.model.case import Case, CaseSpec
from triage.model.revision import Toolchain


@dataclass(frozen=True, slots=True)
class VersionRule:
    """How to ask a compiler that is not a package for its version."""

    run: tuple[str, ...]
    pattern: str
    """Matches the version, or has a group for it, in what `run` prints."""


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """A compiler behind a command."""

    words: tuple[str, ...]
    """The command line, program first, with placeholders such as `{input}`."""
    packages: tuple[str, ...] = ()
    """Requirements of the package index, first the one whose releases are the timeline."""
    version: VersionRule | None = None
    parse_errors_fail: bool = False


def is_mlir(input_name: str) -> bool:
    """Whether an input is MLIR, whose text changes from version to version, so that many cannot read it."""
    return input_name.endswith((".mlir", ".mlirbc"))


class CommandScript(ReproScript):
    """Repeats the recipe's own command line, its placeholders as shell variables."""

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        spec = case.spec
        if not isinstance(spec, CommandSpec):
            return ("compiler: command",)
        is_usual = spec.parse_errors_fail != is_mlir(case.input.path.name)
        keys = {
            "package": spec.packages,
            "command": spec.words,
            "version": spec.version and {"run": spec.version.run, "pattern": spec.version.pattern},
            "parse_errors": None if is_usual else "fail" if spec.parse_errors_fail else "untestable",
            "rules": case.rules and RULES_FILE,
        }
        lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items() if value)
        return ("compiler: command", *lines)

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        packages = case.spec.packages if isinstance(case.spec, CommandSpec) else ()
        return packages[0] if packages else super().program_name(case, toolchain)

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        spec = task.case.spec
        assert isinstance(spec, CommandSpec)
        before = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
        if spec.packages:
            remark = "\n# Set PYTHON to the interpreter that has it."
            prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
            before += [f"TOOLCHAIN={prefix} || exit 127", 'PATH="$TOOLCHAIN/bin:$PATH"']
        else:
            remark = "\n# Set TOOLCHAIN to the compiler's folder, or to the compiler itself."
            before += [': "${TOOLCHAIN:?set it to the path of the compiler}"']
        shown = {"input": task.source, "output": "out", "python": "python3"}
        words = tuple(fill_placeholders(word, shown) for word in task.options)
        run = " ".join(_shell_word(word, task.source) for word in task.options)
        install = task.requirement and shlex.join((task.requirement, *spec.packages[1:]))
        return StandaloneCall(install, words, run, remark, tuple(before), replaces=False)


def _shell_word(word: str, source: str) -> str:
    """A word for the shell, with variables for its placeholders."""
    places = {"input": source, "output": '"$OUT/out"', "python": '"${PYTHON:-python3}"', "toolchain": '"$TOOLCHAIN"'}
    parts = re.split(r"\{(input|output|python|toolchain)\}", word)  # texts and names in turn
    return "".join(places[part] if index % 2 else shlex.quote(part) for index, part in enumerate(parts) if part) or "''"
