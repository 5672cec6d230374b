"""Describe the compile of a kernel in a reproducer: its recipe keys, and a script that
compiles it without triage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triage.compilers.base import KernelSpec, kernel_of
from triage.compilers.repro_script import ReproScript, StandaloneCall, StandaloneCompile
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.recipes.values import parse_version

_SCRIPT = "repro.py"
_TEMPLATE = Path(__file__).with_name("repro.py.j2")
# Compute capability -> bytes of shared memory that a block may ask for.
_CUDA_SHARED = {
    **dict.fromkeys((70, 72), 98304),
    75: 65536,
    **dict.fromkeys((80, 87), 166912),
    **dict.fromkeys((86, 89, 120, 121), 101376),
    **dict.fromkeys((90, 100, 101, 103), 232448),
}


@dataclass(frozen=True, slots=True)
class Chip:
    """The facts about a chip that a compile needs."""

    arch: str
    """`90` of `sm_90`; `gfx942` as it is."""
    warp_size: int
    shared_limit: int | None
    """Bytes of shared memory (LDS) that one block may ask for, if known."""


def chip_of(backend: str, name: str) -> Chip | None:
    """Describe the chip of a name such as `sm_90` of cuda or `gfx942` of hip. Returns
    None if no chip of the backend can have this name.
    """
    if backend == "cuda":
        match = re.fullmatch(r"(?:sm_?)?(\d{2,3})a?", name)
        if match:
            return Chip(match[1], 32, _CUDA_SHARED.get(int(match[1])))
        return None
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}", name):
        return None
    warp_size = 32 if re.fullmatch(r"gfx1[0-2]\d\d", name) else 64
    return Chip(name, warp_size, 163840 if name == "gfx950" else 65536)


def kernel_keys(kernel: KernelSpec) -> dict[str, object]:
    """Return the keys of a kernel, as a recipe and the worker have them."""
    return {
        "kernel": kernel.name,
        "signature": dict(kernel.signature),
        "constexprs": dict(kernel.constexprs),
        "hints": {name: dict(hints) for name, hints in kernel.hints.items()},
        "options": dict(kernel.options),
    }


class TritonScript(ReproScript):
    """Repeats the compile of a kernel with a Python script."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        keys = dict(super().recipe_keys(case))
        kernel = kernel_of(case)
        if kernel:
            items = kernel_keys(kernel).items()
            keys.update({name: value for name, value in items if value})
        return keys

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return "triton"

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the command that runs the script next to the kernel."""
        install = task.requirement
        if install and _release(task) < (3, 3):
            install += (
                " setuptools"  # imported by Triton, but not required by its wheel
            )
        return StandaloneCall(
            install,
            ("python3", _SCRIPT),
            f'"${{PYTHON:-python3}}" {_SCRIPT}',
            "\n# Set PYTHON to the interpreter that has it.",
            ('"${PYTHON:-python3}" -c "import triton" || exit 127',),
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        return {_SCRIPT: script(task)}


def _release(task: StandaloneCompile) -> tuple[int, int]:
    """Return major and minor version. A build without a version counts as new."""
    version = parse_version(task.version)
    return (version.major, version.minor) if version else (1000, 0)


def script(task: StandaloneCompile) -> str:
    """Return a script that compiles the kernel with the calls of that Triton
    release.
    """
    from jinja2 import Environment, StrictUndefined

    from triage.compilers.triton.worker import hinted, source_arguments

    target, release, kernel = task.case.target, _release(task), kernel_of(task.case)
    chip = chip_of(target.backend, target.chip or "")
    assert chip is not None  # the kernel was compiled for it
    assert kernel is not None
    names = list(task.function.parameters) if task.function else []
    keys = kernel_keys(kernel)
    limit = None
    if task.failure_class == "shared-memory-overflow":
        limit = chip.shared_limit
    template = Environment(  # noqa: S701 - it makes Python
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    template.filters["code"] = _code
    return template.from_string(_TEMPLATE.read_text("utf-8")).render(
        task=task,
        target=target,
        chip=chip,
        limit=limit,
        release=release,
        options=dict(kernel.options),
        arguments=source_arguments(names, keys, release),
        divisible=hinted(names, keys, "divisibility", 16),
        ranged=hinted(names, keys, "pointer_range", 32),
    )


def _code(value: object) -> str:
    """Return a value as Python; texts that begin with `tl.` are names of types."""
    code = re.sub(r"'(tl\.\w+)'", r"\1", repr(value))
    return re.sub(r"(?<!['\w])(inf|nan)\b", r'float("\1")', code)
