"""A Triton kernel as recipe keys, and as a script that compiles it without triage."""

from __future__ import annotations

import json
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
# What a block may opt in to, bytes.
_CUDA_SHARED = {
    **dict.fromkeys((70, 72), 98304),
    75: 65536,
    **dict.fromkeys((80, 87), 166912),
    **dict.fromkeys((86, 89, 120, 121), 101376),
    **dict.fromkeys((90, 100, 101, 103), 232448),
}


@dataclass(frozen=True, slots=True)
class Chip:
    """What a compile for a chip needs to know."""

    arch: str
    warp_size: int
    shared_limit: int | None
    """Bytes of shared memory (LDS) that one block may ask for, if known."""


def chip_of(backend: str, name: str) -> Chip | None:
    """Describe a chip, such as `sm_90` of cuda or `gfx942` of hip, if this is its
    name.
    """
    if backend == "cuda":
        match = re.fullmatch(r"(?:sm_?)?(\d{2,3})a?", name)
        if match:
            return Chip(match[1], 32, _CUDA_SHARED.get(int(match[1])))
        return None
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}", name):
        return None
    return Chip(
        name,
        32 if re.fullmatch(r"gfx1[0-2]\d\d", name) else 64,
        163840 if name == "gfx950" else 65536,
    )


class TritonScript(ReproScript):
    """Repeats a compile with a Python script."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        kernel = kernel_of(case)
        if kernel is None:
            return super().recipe_keys(case)
        names = ("kernel", "signature", "constexprs", "hints", "options")
        values = (
            kernel.name,
            kernel.signature,
            kernel.constexprs,
            kernel.hints,
            kernel.options,
        )
        keys = {name: value for name, value in zip(names, values, strict=True) if value}
        return {**super().recipe_keys(case), **keys}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return "triton"

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Run the script next to the kernel."""
        check = '"${PYTHON:-python3}" -c "import triton" || exit 127'
        remark = "\n# Set PYTHON to the interpreter that has it."
        install = " ".join(_packages(task)) or None
        return StandaloneCall(
            install,
            ("python3", _SCRIPT),
            f'"${{PYTHON:-python3}}" {_SCRIPT}',
            remark,
            (check,),
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        kernel = kernel_of(task.case)
        if kernel:
            return {_SCRIPT: script(task, kernel)}
        return {}


def _packages(task: StandaloneCompile) -> list[str]:
    """Return the requirements of the script: the release, and what it imports but its
    wheel does not require.
    """
    if _release(task) < (3, 3):
        unlisted = ["setuptools"]
    else:
        unlisted = []
    if task.requirement:
        return [task.requirement, *unlisted]
    return []


def _release(task: StandaloneCompile) -> tuple[int, int]:
    version = parse_version(task.version)
    # a build is newer than any release
    if version:
        return (version.major, version.minor)
    return (1000, 0)


def script(task: StandaloneCompile, kernel: KernelSpec) -> str:
    """Return a script that compiles the kernel with the calls of that Triton
    release.
    """
    from jinja2 import Environment, StrictUndefined

    target, release = task.case.target, _release(task)
    chip = chip_of(target.backend, target.chip or "")
    assert chip  # it was compiled for it
    wanted = [word for package in _packages(task) for word in ("--with", package)]
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
        limit=chip.shared_limit
        if task.failure_class == "shared-memory-overflow"
        else None,
        release=task.release,
        command=wanted
        and shlex.join(
            ["uv", "run", "--no-project", "--python", _PYTHON, *wanted, _SCRIPT]
        ),
        lacks_linker=target.backend == "hip" and release < (3, 5),
        has_types=any(
            str(value).startswith("tl.") for value in kernel.constexprs.values()
        ),
        options=kernel.options,
        function=task.function,
        **(_arguments(task, kernel, release)),
    )


def _arguments(
    task: StandaloneCompile, kernel: KernelSpec, release: tuple[int, int]
) -> dict[str, Any]:
    """Return the arguments of `ASTSource`, and what hints need before it."""
    from triage.compilers.triton.worker.api_versions import Specialised

    if task.function is None:
        return {"hints": None}
    spec = {"signature": kernel.signature, "hints": kernel.hints}
    known = Specialised.of(
        None, list(task.function.parameters), spec, dict(kernel.constexprs)
    )
    arguments = known.arguments(release)
    if release >= (3, 3) or not any(kernel.hints.values()):
        return {"hints": None, "arguments": arguments}
    if release >= (3, 2):
        ranged = known.with_hint("pointer_range", 32)
        arguments["attrs"] = _Code("known")
        return {
            "hints": "from_hints",
            "known": known.known(),
            "ranged": ranged,
            "arguments": arguments,
        }
    sets = (set(known.with_hint("divisibility", value)) for value in (16, 1))
    arguments["attrs"] = _Code(
        "AttrsDescriptor(divisible_by_16={}, equal_to_1={})".format(*sets)
    )
    return {"hints": "sets", "arguments": arguments}


class _Code(str):
    """A text that is Python already."""


def _code(value: object) -> str:
    if isinstance(value, Mapping):
        items = (f"{_code(key)}: {_code(inner)}" for key, inner in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, str):
        if isinstance(value, _Code) or value.startswith("tl."):
            return value
        return json.dumps(value)
    return repr(value)
