"""Describe the compile of a kernel in a reproducer: its recipe keys, and a script that
compiles it without triage.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.compilers.base import KernelSpec, kernel_of
from triage.compilers.repro_script import ReproScript, StandaloneCall, StandaloneCompile
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.recipes.values import parse_version

_SCRIPT = "repro.py"
_PYTHON = "3.11"  # every release from 3.0 on has a wheel for it
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


class TritonScript(ReproScript):
    """Repeats the compile of a kernel with a Python script."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        kernel = kernel_of(case)
        if kernel is None:
            return super().recipe_keys(case)
        keys = {
            "kernel": kernel.name,
            "signature": kernel.signature,
            "constexprs": kernel.constexprs,
            "hints": kernel.hints,
            "options": kernel.options,
        }
        known = {name: value for name, value in keys.items() if value}
        return {**super().recipe_keys(case), **known}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return "triton"

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the command that runs the script next to the kernel."""
        check = '"${PYTHON:-python3}" -c "import triton" || exit 127'
        return StandaloneCall(
            " ".join(_requirements(task)) or None,
            ("python3", _SCRIPT),
            f'"${{PYTHON:-python3}}" {_SCRIPT}',
            "\n# Set PYTHON to the interpreter that has it.",
            (check,),
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        kernel = kernel_of(task.case)
        return {_SCRIPT: script(task, kernel)} if kernel else {}


def _requirements(task: StandaloneCompile) -> list[str]:
    """Return what pip installs for the script; empty unless it is a release."""
    if not task.requirement:
        return []
    if _release(task) < (3, 3):
        # imported by Triton, but not required by its wheel
        return [task.requirement, "setuptools"]
    return [task.requirement]


def _release(task: StandaloneCompile) -> tuple[int, int]:
    """Return major and minor version. A build without a version counts as new."""
    version = parse_version(task.version)
    return (version.major, version.minor) if version else (1000, 0)


def script(task: StandaloneCompile, kernel: KernelSpec) -> str:
    """Return a script that compiles the kernel with the calls of that Triton
    release.
    """
    from jinja2 import Environment, StrictUndefined

    target, release = task.case.target, _release(task)
    chip = chip_of(target.backend, target.chip or "")
    assert chip is not None  # the kernel was compiled for it
    command = ""
    requirements = _requirements(task)
    if requirements:
        words = ["uv", "run", "--no-project", "--python", _PYTHON]
        for requirement in requirements:
            words += ["--with", requirement]
        command = shlex.join([*words, _SCRIPT])
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
        source=task.source,
        chip=target.chip,
        backend=target.backend,
        arch=int(chip.arch) if chip.arch.isdigit() else chip.arch,
        warp_size=chip.warp_size,
        limit=limit,
        release=task.release,
        command=command,
        lacks_linker=target.backend == "hip" and release < (3, 5),
        has_types=any(
            str(value).startswith("tl.") for value in kernel.constexprs.values()
        ),
        options=kernel.options,
        function=task.function,
        **_source_values(task, kernel, release),
    )


def _source_values(
    task: StandaloneCompile, kernel: KernelSpec, release: tuple[int, int]
) -> dict[str, Any]:
    """Return the template's values for the call of `ASTSource` and for the statements
    before it, which hints need in some releases.
    """
    from triage.compilers.triton.worker.api_versions import KernelArguments

    if task.function is None:
        return {"hints": None}
    spec = {"signature": kernel.signature, "hints": kernel.hints}
    specialised = KernelArguments.of(
        None, list(task.function.parameters), spec, dict(kernel.constexprs)
    )
    arguments = specialised.arguments(release)
    if release >= (3, 3) or not any(kernel.hints.values()):
        return {"hints": None, "arguments": arguments}
    if release >= (3, 2):
        arguments["attrs"] = _Code("known")
        return {
            "hints": "from_hints",
            "known": specialised.divisors(),
            "ranged": specialised.with_hint("pointer_range", 32),
            "arguments": arguments,
        }
    sets = (set(specialised.with_hint("divisibility", value)) for value in (16, 1))
    arguments["attrs"] = _Code(
        "AttrsDescriptor(divisible_by_16={}, equal_to_1={})".format(*sets)
    )
    return {"hints": "sets", "arguments": arguments}


class _Code(str):
    """A text that is Python already."""


def _code(value: object) -> str:
    """Return a value as Python; texts that begin with `tl.` are names of types."""
    if isinstance(value, Mapping):
        items = (f"{_code(key)}: {_code(inner)}" for key, inner in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, str):
        if isinstance(value, _Code) or value.startswith("tl."):
            return value
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
