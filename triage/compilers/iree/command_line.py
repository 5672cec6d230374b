"""Read a command line of `iree-compile` or `iree-opt`, such as one from an issue or a
build log, as the start of a recipe.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from triage.compilers.iree.devices import (
    BACKENDS,
    CHIPS,
    DEVICE,
    DEVICE_NAMES,
    IREE,
    LOCAL,
    STARTS_LATE,
    device_flags,
    named_targets,
)
from triage.compilers.pasted_flags import names_in
from triage.compilers.pasted_text import calls_in, chip_in, read_mlir
from triage.compilers.recipe_input import (
    PastedText,
    RecipeRequest,
    RecipeStarter,
    ShellCommand,
)
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_INPUT = re.compile(r"\.(mlir|mlirbc|onnx)$")
_STDIN = ("-", "/dev/stdin", "%s")
_PHASE = "--compile-to="
# Backends that current versions spell in another way.
_OLD_BACKENDS = {
    "vulkan": "vulkan-spirv",
    "dylib-llvm-aot": "llvm-cpu",
    "dylib": "llvm-cpu",
    "cpu": "llvm-cpu",
    "hip": "rocm",
}
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
_ALONE = frozenset({"--verify", "--debug"})
_IN_PROGRAM = re.compile(r'#hal\.executable\.target<"([\w-]+)"')
_READ = 1 << 20  # characters of the input
_IREE_OPT = [
    "{site_packages}/iree/compiler/_mlir_libs/iree-opt",
    "{input}",
    "{flags}",
    "-o",
    "{output}",
]

_DEFAULT_BACKEND = "llvm-cpu"
# of backends that no release compiles for without a chip
_DEFAULT_CHIPS = {"rocm": "gfx942"}
# how issues name devices
_DEVICES_IN_TEXTS = {
    "rocm": re.compile(r"--device=hip\b|\bROCm\b"),
    "cuda": re.compile(r"--device=cuda\b"),
    "vulkan-spirv": re.compile(r"--device=vulkan\b|\b[Vv]ulkan\b"),
    "metal-spirv": re.compile(r"--device=metal\b"),
}


class IreeRecipes(RecipeStarter):
    """Recipes for IREE from programs, command lines and issues."""

    def call_in(self, words: Sequence[str]) -> ShellCommand | None:
        """Return the call in a command line, with or without the program's name, unless
        it runs another program.
        """
        if len(words) == 1 and re.search(r"\s", words[0]):
            text = words[0]
        else:
            text = shlex.join(words)
        call = next(calls_in(text), None)
        if call and not words[0].startswith("-"):
            return call
        is_other = (
            words
            and not words[0].startswith(("-", "@"))
            and not _INPUT.search(words[0])
        )
        if is_other:
            return None
        return ShellCommand("iree-compile", tuple(words))

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        inputs, flags, left_out = _sort_words(_join_values(call))
        path = source or _input_path(inputs, call.stdin)
        if call.tool == "iree-opt":
            keys = {"package": "iree-base-compiler", "command": _IREE_OPT}
            start = RecipeStart(
                "command",
                path,
                None,
                tuple(flags),
                keys=keys,
                toolchain="command:iree-base-compiler:latest",
            )
        else:
            start = _start_of_compile(path, flags, backend)
        return replace(start, left_out=tuple(left_out), env=dict(call.env))

    @property
    def flags_allowed_in_texts(self) -> frozenset[str]:
        return names_in(files(__package__) / "pasted_flags.yaml")

    def from_source(self, request: RecipeRequest, source: Path) -> RecipeStart | None:
        if request.kernel:
            return None
        backend = request.backend or _DEFAULT_BACKEND
        target = self.target_named(backend, request.chip)
        assumed = [] if request.backend else [_DEFAULT_BACKEND]
        return RecipeStart(IREE.name, source, target, assumed=assumed)

    def read_text(self, text: str) -> PastedText:
        return read_mlir(text)

    def target_named(self, backend: str, chip: str | None) -> Target:
        name = _OLD_BACKENDS.get(backend, backend)
        if name in _DEFAULT_CHIPS and chip is None:
            raise BadInput(f"{name} compiles for a chip, and none is named")
        return Target(name, chip)

    def target_in(self, text: str) -> Target:
        chip = chip_in(text)
        if chip:
            return Target("rocm" if chip.startswith("gfx") else "cuda", chip)
        for backend, named in _DEVICES_IN_TEXTS.items():
            if named.search(text):
                return Target(backend, _DEFAULT_CHIPS.get(backend))
        return Target(_DEFAULT_BACKEND)


def _join_values(call: ShellCommand) -> list[str]:
    """Return the words with `--` before every option and its value joined to it."""
    joined: list[str] = []
    takes_value = False
    for word in call.words:
        if word.startswith("-") and word != "-":
            joined.append(f"--{word.lstrip('-')}")
            takes_value = "=" not in word and joined[-1] not in _ALONE
            continue
        is_input = word in _STDIN or word in call.files or _INPUT.search(word)
        if takes_value and (joined[-1] == "--o" or not is_input):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
        takes_value = False
    return joined


def _sort_words(words: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return inputs, flags, and words that are left out."""
    inputs: list[str] = []
    flags: list[str] = []
    left_out: list[str] = []
    for word in words:
        # the second of several named devices
        if re.fullmatch(r"[A-Za-z_][\w.-]*=\w+(\[\d+\])?", word):
            flags.append(f"{DEVICE}{word}")
        elif not word.startswith("-") or word == "-":
            inputs.append(word)
        elif _LEFT_OUT.match(word):
            left_out.append(re.sub("^--o=", "-o ", word))
        elif word.startswith(DEVICE) and " " in word:
            flags += [
                f"{DEVICE}{device}" for device in word.removeprefix(DEVICE).split()
            ]
        elif word not in flags:
            flags.append(word)
    return inputs, flags, left_out


def _input_path(inputs: Sequence[str], stdin: str | None) -> Path:
    """Return the only input, or the file that is redirected to standard input. Raises
    BadInput if there is not exactly one.
    """
    if inputs in ([], ["-"], ["/dev/stdin"]) and stdin:
        return Path(stdin)
    if len(inputs) != 1:
        if inputs:
            found = " and ".join(inputs)
        else:
            found = "none"
        raise BadInput(
            "expected one input (.mlir, .mlirbc or .onnx) in the command line, found "
            f"{found}; name it with --input"
        )
    if inputs[0] in _STDIN:
        text = "the command line reads the compiler's standard input"
        raise BadInput(f"{text}; save the program to a file and name it with --input")
    return Path(inputs[0])


def _start_of_compile(path: Path, flags: list[str], backend: str | None) -> RecipeStart:
    """Return the start of a recipe that compiles a program with these flags. Raises
    BadInput if nothing names the backend.
    """
    notes: list[str] = []
    assumed: list[str] = []
    for index, flag in enumerate(flags):
        old = flag.removeprefix(BACKENDS)
        if old != flag and old in _OLD_BACKENDS:
            notes.append(f"The backend {old} is called {_OLD_BACKENDS[old]} now.")
            flags[index] = f"{BACKENDS}{_OLD_BACKENDS[old]}"
    phases = [flag.removeprefix(_PHASE) for flag in flags if flag.startswith(_PHASE)]
    if len(phases) == 1 and phases[0] in IREE.phases:
        phase = phases[0]
    else:
        phase = None
    starts_late = any(map(STARTS_LATE.match, flags))
    chosen = _OLD_BACKENDS.get(backend or "", backend) or _backend_of_flags(flags)
    if chosen is None:
        chosen = _backend_in(path) or ("llvm-cpu" if phase in _EARLY else None)
        if chosen is None:
            raise BadInput(
                "the command line names no backend and no device; name the backend "
                "with --backend"
            )
        if not starts_late:
            notes.append(f"The command line names no backend; {chosen} is passed.")
            assumed.append(chosen)
    chips = list(
        dict.fromkeys(
            flag for flag in flags if CHIPS.get(flag.partition("=")[0]) == chosen
        )
    )
    if len(chips) == 1:
        chip = chips[0].partition("=")[2]
    else:
        chip = None
    if chip:
        flags.remove(chips[0])
    target = Target(chosen, chip, _devices(flags, chosen))
    selecting = {flag for flag in flags if flag.startswith((DEVICE, BACKENDS, LOCAL))}
    # the recipe's target replaces these
    if selecting == set(device_flags(target)) and not starts_late:
        flags = [flag for flag in flags if flag not in selecting]
    kept = tuple(flag for flag in flags if flag != f"{_PHASE}{phase}")
    return RecipeStart(
        IREE.name, path, target, kept, phase, notes=tuple(notes), assumed=assumed
    )


def _backend_of_flags(flags: Sequence[str]) -> str | None:
    """Return the backend that the flags compile for, None if they name none. A GPU
    comes first: versions spell its chip differently.
    """
    named, _ = named_targets(flags)
    if not named:
        names = [flag.partition("=")[0] for flag in flags]
        named = [CHIPS[name] for name in names if name in CHIPS]
    backends = [name for name in named if name in IREE.backends] or named[:1]
    on_gpu = [name for name in backends if name in ("rocm", "cuda")]
    return next(iter((*on_gpu, *backends)), None)


def _backend_in(path: Path) -> str | None:
    """Return the backend that a textual program names itself, or None."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            match = _IN_PROGRAM.search(file.read(_READ))
    except OSError:
        return None
    if match and match[1] in IREE.backends:
        return match[1]
    return None


def _devices(flags: Sequence[str], backend: str) -> int | None:
    """Return the number of devices; None unless they are declared by number from 0."""
    declared = [flag for flag in flags if flag.startswith(DEVICE)]
    if not declared or backend not in DEVICE_NAMES:
        return None
    counted = device_flags(Target(backend, devices=len(declared)))
    if [flag for flag in counted if flag.startswith(DEVICE)] == declared:
        return len(declared)
    return None
