"""Read a program, or a command line of `iree-compile` or `iree-opt`, as the start of a
recipe.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triage.compilers.invocation import flag_name
from triage.compilers.iree.targets import (
    BACKENDS,
    CHIP_FLAGS,
    DEVICE,
    IREE,
    LOCAL,
    TARGET_BACKENDS,
    device_flags,
    named_targets,
)
from triage.compilers.pasted_text import chip_in, mlir_in, python_in
from triage.compilers.recipe_input import RecipeRequest, RecipeStarter, ShellCommand
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import MODEL_SUFFIX, RecipeStart

_INPUT = re.compile(r"\.(mlir|mlirbc|onnx)$")
_STDIN = ("-", "/dev/stdin", "%s")
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
# options without a value, although a word may follow
_ALONE = ("--verify", "--debug")
_IREE_OPT = [
    "{site_packages}/iree/compiler/_mlir_libs/iree-opt",
    "{input}",
    "{flags}",
    "-o",
    "{output}",
]
_MAKES_MODEL = re.compile(r"\bmake_model\(")
_PLAIN_IMPORT = re.compile(r"(?:import|from) (?:onnx|numpy|math|random|ml_dtypes)\b")
_PRINT_MODEL = """\
models = [each for each in globals().values() if type(each).__name__ == "ModelProto"]
sys.stdout.buffer.write(models[-1].SerializeToString())
"""
_DEFAULT_BACKEND = "llvm-cpu"
_DEFAULT_ROCM_CHIP = "gfx942"  # no release compiles for rocm without a chip
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

    def programs_in(self, text: str) -> Sequence[str]:
        """Return MLIR programs; if there are none, Python that makes ONNX models."""
        programs = [text for text in mlir_in(text) if "tt.func" not in text]
        return programs or [*map(_printing_model, python_in(text, _MAKES_MODEL))]

    def suffix_of(self, program: str) -> str:
        return MODEL_SUFFIX if _MAKES_MODEL.search(program) else ".mlir"

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        words = _join_values(call.words)
        inputs = [word for word in words if not word.startswith("--")]
        left_out = [word for word in words if _LEFT_OUT.match(word)]
        options = [word for word in words if word not in (*inputs, *left_out)]
        flags = list(dict.fromkeys(options))
        path = source or _input_path(inputs, call.stdin)
        if call.tool == "iree-opt":
            keys = {"package": "iree-base-compiler", "command": _IREE_OPT}
            toolchain = "command:iree-base-compiler:latest"
            start = RecipeStart(
                "command", path, None, tuple(flags), keys=keys, toolchain=toolchain
            )
        else:
            start = _start_of_compile(path, flags, backend)
        shown = [re.sub("^--o=", "-o ", word) for word in left_out]
        return replace(start, left_out=tuple(shown), env=dict(call.env))

    def from_program(
        self, request: RecipeRequest, source: Path | None, text: str
    ) -> RecipeStart | None:
        if request.kernel:
            return None
        path = source or request.path.with_suffix(self.suffix_of(text))
        backend = request.backend or _DEFAULT_BACKEND
        backend = IREE.aliases.get(backend, backend)
        if backend == "rocm" and request.chip is None:
            raise BadInput(f"{backend} compiles for a chip, and none is named")
        assumed = [] if request.backend else [_DEFAULT_BACKEND]
        target = Target(backend, request.chip)
        return RecipeStart(IREE.name, path, target, assumed=assumed)

    def target_in(self, text: str) -> Target:
        chip = chip_in(text)
        if chip:
            return Target("rocm" if chip.startswith("gfx") else "cuda", chip)
        for backend, named in _DEVICES_IN_TEXTS.items():
            if named.search(text):
                return Target(
                    backend, _DEFAULT_ROCM_CHIP if backend == "rocm" else None
                )
        return Target(_DEFAULT_BACKEND)


def _printing_model(code: str) -> str:
    """Return Python that prints the last model which the code makes: its statements up
    to that one, without imports of packages that it may not find.
    """
    statements = ast.parse(code).body
    makes_model = [
        _MAKES_MODEL.search(ast.unparse(statement)) is not None
        for statement in statements
    ]
    end = len(statements) - makes_model[::-1].index(True)
    texts = [
        ast.unparse(statement)
        for statement in statements[:end]
        if not isinstance(statement, ast.Import | ast.ImportFrom)
        or _PLAIN_IMPORT.match(ast.unparse(statement))
    ]
    return "\n".join(["import sys", *texts, _PRINT_MODEL])


def _join_values(words: Sequence[str]) -> list[str]:
    """Return the words with `--` before every option and its value joined to it."""
    joined = [""]
    for word in words:
        last = joined[-1]
        takes_value = last.startswith("--") and "=" not in last and last not in _ALONE
        is_input = word in _STDIN or _INPUT.search(word)
        if word.startswith("-") and word != "-":
            joined.append(f"--{word.lstrip('-')}")
        elif takes_value and (last == "--o" or not is_input):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined[1:]


def _input_path(inputs: Sequence[str], stdin: str | None) -> Path:
    """Return the only input, or the file that is redirected to standard input. Raises
    BadInput if there is not exactly one.
    """
    if inputs in ([], ["-"], ["/dev/stdin"]) and stdin:
        return Path(stdin)
    if len(inputs) != 1 or inputs[0] in _STDIN:
        raise BadInput(
            "expected one input file (.mlir, .mlirbc or .onnx) in the command line, "
            f"found {' and '.join(inputs) or 'none'}; name it with --input"
        )
    return Path(inputs[0])


def _start_of_compile(path: Path, flags: list[str], backend: str | None) -> RecipeStart:
    """Return the start of a recipe that compiles a program with these flags. Raises
    BadInput if nothing names the backend.
    """
    for index, flag in enumerate(flags):
        name = flag.removeprefix(TARGET_BACKENDS)
        if name in IREE.aliases:
            flags[index] = f"{TARGET_BACKENDS}{IREE.aliases[name]}"
    phases = [flag.removeprefix(_PHASE) for flag in flags if flag.startswith(_PHASE)]
    phase = None
    if len(phases) == 1 and phases[0] in IREE.phases:
        phase = phases[0]
    assumed: tuple[str, ...] = ()
    named, _ = named_targets(flags)
    # a GPU comes first: versions spell its chip differently
    named.sort(key=lambda name: (name not in ("rocm", "cuda"), name not in BACKENDS))
    chosen = IREE.aliases.get(backend or "", backend) or next(iter(named), None)
    if chosen is None and phase in _EARLY:
        chosen = _DEFAULT_BACKEND
        assumed = (chosen,)
    if chosen is None:
        raise BadInput(
            "the command line names no backend and no device; name the backend with "
            "--backend"
        )
    chips = [flag for flag in flags if CHIP_FLAGS.get(flag_name(flag)) == chosen]
    chip = None
    if len(chips) == 1:
        chip = chips[0].partition("=")[2]
        flags.remove(chips[0])
    target = Target(chosen, chip)
    selecting = {
        flag for flag in flags if flag.startswith((DEVICE, TARGET_BACKENDS, LOCAL))
    }
    # the recipe's target replaces these
    if selecting == set(device_flags(target)):
        flags = [flag for flag in flags if flag not in selecting]
    flags = [flag for flag in flags if flag != f"{_PHASE}{phase}"]
    return RecipeStart(IREE.name, path, target, tuple(flags), phase, assumed=assumed)
