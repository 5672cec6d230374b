"""Read a program, or a command line of `iree-compile` or `iree-opt`, as the start of a
recipe.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triage.compilers.iree.targets import (
    IREE,
    SELECTING,
    TARGET_BACKENDS,
    chip_flag,
    named_target,
    selecting_flags,
)
from triage.compilers.pasted_text import (
    PastedProgram,
    RecipeRequest,
    RecipeStarter,
    ShellCommand,
    chip_in,
    mlir_in,
    options_and_input,
    python_in,
)
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.recipe import MODEL_SUFFIX, RecipeStart

_INPUT = re.compile(r"\.(mlir|mlirbc|onnx)$")
_PHASE = "--compile-to="
# Options that only change what is printed, and where; and programs of the other
# machine.
_LEFT_OUT = re.compile(
    r"--(o=|iree-hal-dump-|iree-hal-benchmark-|dump-compilation-phases-to|mlir-print-"
    r"|mlir-elide-|mlir-timing"
    r"|mlir-pass-statistics|mlir-disable-threading|mlir-pass-pipeline-(crash|local)"
    r"-reproducer|debug\b|debug-only|verify$"
    r"|verify-diagnostics|split-input-file|save-temp|iree-scheduling-dump-|iree-(llvm"
    r"|llvmcpu)-\w+-linker-path=)"
)
_EARLY = IREE.phases[: IREE.phases.index("stream")]
_IREE_OPT = [
    "{site_packages}/iree/compiler/_mlir_libs/iree-opt",
    "{input}",
    "{flags}",
    "-o",
    "{output}",
]
_MAKES_MODEL = re.compile(r"\bmake_model\(")
_OTHER_IMPORT = re.compile(
    r"(?:import|from) (?!(?:onnx|numpy|math|random|ml_dtypes)\b)"
)
_PRINT_MODEL = """\
models = [each for each in globals().values() if type(each).__name__ == "ModelProto"]
sys.stdout.buffer.write(models[-1].SerializeToString())
"""
_DEFAULT_BACKEND = "llvm-cpu"
_DEFAULT_CHIPS = {"rocm": "gfx942"}  # no release compiles for it without a chip
# how issues name devices
_DEVICES_IN_TEXTS = {
    "rocm": re.compile(r"--device=hip\b|\bROCm\b"),
    "cuda": re.compile(r"--device=cuda\b"),
    "vulkan-spirv": re.compile(r"--device=vulkan\b|\b[Vv]ulkan\b"),
    "metal-spirv": re.compile(r"--device=metal\b"),
}


class IreeRecipes(RecipeStarter):
    """Recipes for IREE from programs and command lines."""

    tools = re.compile(
        r"(?:(?<![^\s\"'`()|;&<>=])[^\s\"'`()|;&<>=]*[\\/]|(?<![\w.-]))"
        r"(?P<tool>iree-compile|iree-opt|ireec)"
        r"(?:-[\d.]+)?(?:\.exe)?(?=[\s\"'`]|$)"
        r"|-m\s+iree\.compiler\.tools(?:\.(?!import_)[\w.]+)?(?=\s)"
    )

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return MLIR programs; if there are none, Python that makes ONNX models."""
        return [
            PastedProgram(program, ".mlir")
            for program in mlir_in(text)
            if "tt.func" not in program
        ] or [
            PastedProgram(_printing_model(code), MODEL_SUFFIX)
            for code in python_in(text, _MAKES_MODEL)
        ]

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        words, path = options_and_input(call, _INPUT, source)
        options = [f"--{word.lstrip('-')}" for word in words]
        left_out = [option for option in options if _LEFT_OUT.match(option)]
        flags = [option for option in options if option not in left_out]
        start = _start_of_call(call.tool, path, list(dict.fromkeys(flags)), backend)
        shown = [re.sub("^--o=", "-o ", option) for option in left_out]
        return replace(start, left_out=tuple(shown))

    def from_program(
        self, request: RecipeRequest, path: Path, program: str
    ) -> RecipeStart | None:
        if request.kernel:
            return None
        target = Target(request.backend or "", request.chip)
        if not request.backend:
            target = _target_in(f"{request.chip or ''} {request.text}")
        if target == Target("rocm"):
            raise BadInput("rocm compiles for a chip, and none is named")
        assumed = request.assumed(target)
        return RecipeStart(IREE.name, path, target, assumed=assumed)


def _target_in(text: str) -> Target:
    """Guess the target of the programs in a text without a command line."""
    chip = chip_in(text)
    if chip:
        return Target("rocm" if chip.startswith("gfx") else "cuda", chip)
    for backend, named in _DEVICES_IN_TEXTS.items():
        if named.search(text):
            return Target(backend, _DEFAULT_CHIPS.get(backend))
    return Target(_DEFAULT_BACKEND)


def _printing_model(code: str) -> str:
    """Return Python that prints the last model which the code makes: its statements up
    to that one, without imports of packages that it may not find.
    """
    lines = [ast.unparse(statement) for statement in ast.parse(code).body]
    makes_model = [bool(_MAKES_MODEL.search(line)) for line in lines]
    end = len(lines) - makes_model[::-1].index(True)
    statements = [line for line in lines[:end] if not _OTHER_IMPORT.match(line)]
    return "\n".join(["import sys", *statements, _PRINT_MODEL])


def _start_of_call(
    tool: str, path: Path, flags: list[str], backend: str | None
) -> RecipeStart:
    """Return the start of a recipe that compiles a program with these flags. Raises
    BadInput if nothing names the backend.
    """
    if tool == "iree-opt":
        keys = {"package": "iree-base-compiler", "command": _IREE_OPT}
        return RecipeStart("command", path, None, flags, keys=keys)
    aliases = {
        f"{TARGET_BACKENDS}{alias}": f"{TARGET_BACKENDS}{name}"
        for alias, name in IREE.aliases.items()
    }
    flags = [aliases.get(flag, flag) for flag in flags]
    phase = next((name for name in IREE.phases if f"{_PHASE}{name}" in flags), None)
    if phase:
        flags.remove(f"{_PHASE}{phase}")
    target = named_target(flags, IREE.aliases.get(backend or "", backend))
    assumed = []
    if target is None and phase in _EARLY:
        target = Target(_DEFAULT_BACKEND)
        assumed = [_DEFAULT_BACKEND]
    if target is None:
        raise BadInput(
            "the command line names no backend and no device; name the backend with "
            "--backend"
        )
    # the recipe's target replaces these
    if target.chip:
        flags = [flag for flag in flags if not chip_flag(flag, target.backend)]
    selecting = {flag for flag in flags if flag.startswith(SELECTING)}
    if selecting == set(selecting_flags(target)):
        flags = [flag for flag in flags if flag not in selecting]
    return RecipeStart(IREE.name, path, target, flags, phase, assumed=assumed)
