"""Describe the compile of a kernel in a reproducer: its recipe keys, and a script that
compiles it without triage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from triage.compilers.base import KernelSpec, kernel_of
from triage.compilers.repro_script import (
    REPRO,
    PackageScript,
    StandaloneCall,
    StandaloneCompile,
)
from triage.model.case import Case
from triage.recipes.values import parse_version

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


def kernel_keys(kernel: KernelSpec) -> dict[str, Any]:
    """Return the keys of a kernel, as a recipe and the worker have them."""
    keys = asdict(kernel)
    return {"kernel": keys.pop("name"), **keys}


class TritonScript(PackageScript):
    """Repeats the compile of a kernel with a Python script."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        keys, kernel = super().recipe_keys(case), kernel_of(case)
        assert kernel is not None  # see `TritonRecipe.complete`
        items = kernel_keys(kernel).items()
        return {**keys, **{name: value for name, value in items if value}}

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        call = super().call(task)
        if call.packages and _release_numbers(task) < (3, 3):
            # imported by Triton, but not required by its wheel
            return replace(call, packages=(*call.packages, "setuptools"))
        return call

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        return {REPRO: script(task)}


def _release_numbers(task: StandaloneCompile) -> tuple[int, int]:
    """Return major and minor version. A build without a version counts as new."""
    version = parse_version(task.version)
    return (version.major, version.minor) if version else (1000, 0)


def script(task: StandaloneCompile) -> str:
    """Return a script that compiles the kernel with the calls of that Triton
    release.
    """
    from jinja2 import Environment, StrictUndefined

    from triage.compilers.triton.worker import hinted_positions, source_arguments

    target, kernel = task.case.target, kernel_of(task.case)
    release = _release_numbers(task)
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
        divisible=hinted_positions(names, keys, "divisibility"),
        ranged=hinted_positions(names, keys, "pointer_range"),
    )


def _code(value: object) -> str:
    """Return a value as Python; texts that begin with `tl.` are names of types."""
    code = re.sub(r"'(tl\.\w+)'", r"\1", repr(value))
    return re.sub(r"(?<!['\w])(inf|nan)\b", r'float("\1")', code)
