"""A command line of `iree-compile`, as issues and build logs have it, read as what a recipe says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.compilers.iree.adapter import CHIP_FLAGS, device_flags
from triage.compilers.iree.devices import DEVICE_NAMES, target_of
from triage.model.case import Target
from triage.model.errors import BadInput

_INPUT = re.compile(r"\.(mlir|mlirbc|onnx)$")
_DEVICE, _PHASE = "--iree-hal-target-device=", "--compile-to="
# A recipe names the chip once, and each version is told in its own spelling.
_CHIPS = frozenset(f"--{name}" for spellings in CHIP_FLAGS.values() for name in spellings)
# What changes nothing but what is written, where, and how it is told.
_WRITING = re.compile(
    r"--(iree-hal-dump-|dump-compilation-phases-to|mlir-print-|mlir-elide-|mlir-timing|mlir-pass-statistics|mlir-disable-threading"
    r"|mlir-pass-pipeline-(crash|local)-reproducer|debug|verify-diagnostics|split-input-file|save-temp|iree-scheduling-dump-)"
)
_ALONE = frozenset({"--verify", "--debug"})  # that take no value, where a word follows


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a command line compiles. input: as it is written there; flags: `--name=value`, in their order; phase: where it
    stops; left_out: what a recipe has no use for, such as where the output goes.
    """

    input: str
    target: Target
    flags: tuple[str, ...]
    phase: str | None
    left_out: tuple[str, ...]


def read_pasted(words: Sequence[str], backend: str | None = None) -> Pasted:
    """Read the words of a command line, the program's name first or not at all. backend: where the words do not tell.

    Raises:
        BadInput: another program, no input or several, or nothing that tells what is compiled for.
    """
    given = list(words)
    while given and re.match(r"[A-Za-z_]\w*=", given[0]):
        del given[0]  # a variable of the surroundings, as a shell takes it
    if given and not given[0].startswith("-") and not _INPUT.search(given[0]):
        program = given.pop(0)
        if not re.search(r"iree-compile(\.exe)?$", program):
            raise BadInput(f"only command lines of iree-compile can be read, and this is one of {program}")
    inputs, flags, left_out = _sorted(_joined(given))
    if len(inputs) != 1:
        found = " and ".join(inputs) if inputs else "none"
        raise BadInput(f"a command line compiles one input (.mlir, .mlirbc or .onnx), and this has {found}")
    named, chip = target_of(flags)
    backend = backend or named
    if backend is None:
        raise BadInput("the command line does not tell what is compiled for: no backend, no device; name it with --backend")
    chips = [flag for flag in flags if flag.partition("=")[0] in _CHIPS]
    if len(chips) == 1:
        chip = chips[0].partition("=")[2]
        flags.remove(chips[0])
    phase = next((flag.removeprefix(_PHASE) for flag in flags if flag.startswith(_PHASE)), None)
    target = Target(backend, chip if len(chips) < 2 else None, _devices(flags, backend))
    said = device_flags(target)  # by the recipe's target, whatever they are called in a version
    kept = tuple(flag for flag in flags if flag not in said and not flag.startswith(_PHASE))
    return Pasted(inputs[0], target, kept, phase, tuple(left_out))


def _joined(words: Sequence[str]) -> Iterator[str]:
    """Words with `--` before every option, and with its value where that is a word of its own."""
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
    """Inputs, flags, and what is left out."""
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
        raise BadInput("a recipe's input is a file; save what the compiler was given on its standard input")
    return inputs, flags, left_out


def _devices(flags: Sequence[str], backend: str) -> int | None:
    """How many devices of the backend are declared by number, from 0 on; None where they are declared otherwise."""
    declared = [flag for flag in flags if flag.startswith(_DEVICE)]
    if not declared or backend not in DEVICE_NAMES:
        return None
    counted = device_flags(Target(backend, devices=len(declared)))
    return len(declared) if [flag for flag in counted if flag.startswith(_DEVICE)] == declared else None
