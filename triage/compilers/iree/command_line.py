"""Read a command line of `iree-compile`, such as one from an issue or a build log, as the start of a recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.compilers.iree.devices import CHIP_FLAGS, DEVICE_NAMES, device_flags, target_of
from triage.compilers.iree.recipe import IREE
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_INPUT = re.compile(r"\.(mlir|mlirbc|onnx)$")
_DEVICE, _PHASE = "--iree-hal-target-device=", "--compile-to="
# A recipe names the chip once; each version gets its own spelling.
_CHIPS = frozenset(f"--{name}" for spellings in CHIP_FLAGS.values() for name in spellings)
# Options that only change what is printed, and where.
_WRITING = re.compile(
    r"--(iree-hal-dump-|dump-compilation-phases-to|mlir-print-|mlir-elide-|mlir-timing|mlir-pass-statistics|mlir-disable-threading"
    r"|mlir-pass-pipeline-(crash|local)-reproducer|debug|verify-diagnostics|split-input-file|save-temp|iree-scheduling-dump-)"
)
_ALONE = frozenset({"--verify", "--debug"})  # options without a value, although a word may follow


def read_command(words: Sequence[str], backend: str | None = None) -> RecipeStart | None:
    """Read the words of a command line, with or without the program's name; None when it runs another program.

    backend: used when the words name none.

    Raises:
        BadInput: there is no input or several, or nothing names the target.
    """
    words = list(words)
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        del words[0]  # an environment variable
    if words and not words[0].startswith("-") and not _INPUT.search(words[0]):
        program = words.pop(0)
        if not re.search(r"iree-compile(\.exe)?$", program):
            return None
    inputs, flags, left_out = _sorted(_joined(words))
    if len(inputs) != 1:
        found = " and ".join(inputs) if inputs else "none"
        raise BadInput(f"expected one input (.mlir, .mlirbc or .onnx) in the command line, found {found}")
    named, chip = target_of(flags)
    backend = backend or named
    if backend is None:
        raise BadInput("the command line names no backend and no device; name the backend with --backend")
    chips = [flag for flag in flags if flag.partition("=")[0] in _CHIPS]
    if len(chips) == 1:
        chip = chips[0].partition("=")[2]
        flags.remove(chips[0])
    phase = next((flag.removeprefix(_PHASE) for flag in flags if flag.startswith(_PHASE)), None)
    target = Target(backend, chip if len(chips) < 2 else None, _devices(flags, backend))
    implied = device_flags(target)  # the recipe's target replaces these
    kept = tuple(flag for flag in flags if flag not in implied and not flag.startswith(_PHASE))
    return RecipeStart(IREE.name, Path(inputs[0]), target, kept, phase, left_out=tuple(left_out))


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The words with `--` before every option and its value joined to it."""
    waiting: str | None = None
    for word in words:
        if word.startswith("-") and word != "-":
            if waiting:
                yield waiting
            waiting = f"--{word.lstrip('-')}"
            if "=" in waiting or waiting in _ALONE:
                yield waiting
                waiting = None
        elif waiting and (waiting == "--o" or not _INPUT.search(word)):
            yield f"{waiting}={word}"
            waiting = None
        else:
            if waiting:
                yield waiting
            waiting = None
            yield word
    if waiting:
        yield waiting


def _sorted(words: Iterator[str]) -> tuple[list[str], list[str], list[str]]:
    """Inputs, flags, and words that are left out."""
    inputs: list[str] = []
    flags: list[str] = []
    left_out: list[str] = []
    for word in words:
        if not word.startswith("-") or word == "-":
            inputs.append(word)
        elif word.startswith("--o=") or _WRITING.match(word) or word in _ALONE:
            left_out.append(word.replace("--o=", "-o ", 1) if word.startswith("--o=") else word)
        elif word not in flags:
            flags.append(word)
    if inputs == ["-"]:
        raise BadInput("a recipe's input is a file; save the compiler's standard input to a file first")
    return inputs, flags, left_out


def _devices(flags: Sequence[str], backend: str) -> int | None:
    """The number of devices, when they are declared by number from 0 on; None when they are declared otherwise."""
    declared = [flag for flag in flags if flag.startswith(_DEVICE)]
    if not declared or backend not in DEVICE_NAMES:
        return None
    counted = device_flags(Target(backend, devices=len(declared)))
    return len(declared) if [flag for flag in counted if flag.startswith(_DEVICE)] == declared else None
