"""Recipes from calls of LLVM's and MLIR's tools, such as `llc -O2 a.ll`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from triage.compilers.parts import PastedText, RecipeFromInput
from triage.compilers.pasted_text import read_llvm
from triage.compilers.shell_words import calls_in
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

# The short names are words of English, too, so that they count only where a command begins.
_TOOLS = re.compile(r"(?:^\s*|[`|;&]\s*|[$%]\s+|RUN:\s*)(?:[^\s`\"']*/)?(?P<tool>mlir-opt|circt-opt|opt|llc)(?:-\d+)?(?=\s+\S)")
_PROGRAM = re.compile(r"\.(?:ll|bc|mlir|mlirbc|mir)$")


class LlvmToolRecipes(RecipeFromInput):
    """Recipes of the command family whose toolchain is a folder with the tool."""

    def from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        call = next(calls_in(" ".join(words) if len(words) == 1 else shlex.join(words), _TOOLS), None)
        return _start(call.tool, call.words, source or call.stdin) if call else None

    def read_text(self, text: str) -> PastedText:
        return read_llvm(text, _TOOLS)


def _start(tool: str, words: Sequence[str], source: Path | str | None) -> RecipeStart:
    inputs = [Path(word) for word in words if _PROGRAM.search(word)]
    rest = iter(words)
    flags: list[str] = []
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif word.startswith("-") and word != "-" and not word.startswith("-o="):
            flags.append(word)
        elif not _PROGRAM.search(word) and word not in ("-", "%s", "/dev/stdin"):
            flags[-1:] = [f"{flags[-1]}={word}" if flags else word]
    if source is None and not inputs:
        raise BadInput(f"the command line of {tool} names no program; name it with --input")
    program = f"{{toolchain}}/bin/{tool}"
    keys = (
        f"command: {json.dumps([program, '{flags}', '{input}', '-o', '{output}'])}",
        f'version: {{run: ["{program}", "--version"], pattern: \'version (\\d+\\.\\d+\\.\\d+)\'}}',
    )
    note = f"The toolchain is a folder that holds bin/{tool}."
    return RecipeStart(
        "command", Path(source or inputs[0]), None, tuple(flags), keys=keys, notes=(note,), toolchain="path:FOLDER"
    )
