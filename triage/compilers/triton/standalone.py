"""A Triton kernel as recipe keys, and as a script that compiles it without triage."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from triage.compilers.base import KernelSpec, kernel_of
from triage.compilers.parts import PythonFunction, ReproScript, StandaloneCall, StandaloneCompile
from triage.compilers.triton.chips import chip_of
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.recipes.values import yaml_text

_SCRIPT = "repro.py"
_PYTHON = "3.11"  # every release from 3.0 on has a wheel for it
_TEMPLATE = Path(__file__).with_name("repro.py.j2")


class TritonScript(ReproScript):
    """Repeats a compile with a Python script."""

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        kernel = kernel_of(case)
        return (*super().recipe_keys(case), *(_kernel_keys(kernel) if kernel else ()))

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return "triton"

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """Run the script next to the kernel."""
        check = '"${PYTHON:-python3}" -c "import triton" || exit 127'
        remark = "\n# Set PYTHON to the interpreter that has it."
        install = " ".join(_packages(task)) or None
        return StandaloneCall(install, ("python3", _SCRIPT), f'"${{PYTHON:-python3}}" {_SCRIPT}', remark, (check,))

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        kernel = kernel_of(task.case)
        return {_SCRIPT: script(task, kernel)} if kernel else {}


def _kernel_keys(kernel: KernelSpec) -> Iterator[str]:
    """The recipe keys of a kernel, one YAML line each; reading them gives the same kernel."""
    types = dict(kernel.signature)
    hints = {name: dict(given) for name, given in kernel.hints.items()}
    for name, given in hints.items():
        if name in types and given.get("divisibility") in (1, 16):
            types[name] = f"{types[name]}:{given.pop('divisibility')}"
    yield f"signature: {yaml_text(types)}"
    left = {name: given for name, given in hints.items() if given}
    keys = {"kernel": kernel.name, "constexprs": kernel.constexprs, "hints": left, "options": kernel.options}
    yield from (f"{key}: {yaml_text(value)}" for key, value in keys.items() if value)


def _packages(task: StandaloneCompile) -> list[str]:
    """The requirements of the script: the release, and what it imports but its wheel does not require."""
    unlisted = ["setuptools"] if _release(task) < (3, 3) else []
    return [task.requirement, *unlisted] if task.requirement else []


def _release(task: StandaloneCompile) -> tuple[int, int]:
    try:
        version = Version(task.version or "")
    except InvalidVersion:  # a build is newer than any release
        return 1000, 0
    return version.major, version.minor


def script(task: StandaloneCompile, kernel: KernelSpec) -> str:
    """A script that compiles the kernel with the calls of that Triton release."""
    from jinja2 import Environment, StrictUndefined

    target, release = task.case.target, _release(task)
    chip = chip_of(target.backend, target.chip or "")
    assert chip  # it was compiled for it
    wanted = [word for package in _packages(task) for word in ("--with", package)]
    template = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)  # noqa: S701
    template.filters["code"] = _code
    return template.from_string(_TEMPLATE.read_text("utf-8")).render(
        source=task.source,
        chip=target.chip,
        backend=target.backend,
        arch=int(chip.arch) if chip.arch.isdigit() else chip.arch,
        warp_size=chip.warp_size,
        limit=chip.shared_limit if task.failure_class == "shared-memory-overflow" else None,
        release=task.release,
        command=wanted and shlex.join(["uv", "run", "--no-project", "--python", _PYTHON, *wanted, _SCRIPT]),
        lacks_linker=target.backend == "hip" and release < (3, 5),
        has_types=any(str(value).startswith("tl.") for value in kernel.constexprs.values()),
        options=kernel.options,
        function=task.function,
        **(_arguments(task.function, kernel, release) if task.function else {"hints": None}),
    )


def _arguments(function: PythonFunction, kernel: KernelSpec, release: tuple[int, int]) -> dict[str, Any]:
    """The arguments of `ASTSource`, and what hints need before it."""

    def places(hint: str, value: int) -> list[int]:
        wanted = (name for name, hints in kernel.hints.items() if hints.get(hint) == value)
        return sorted(function.parameters.index(name) for name in wanted)

    divisible, ones, ranged = places("divisibility", 16), places("divisibility", 1), places("pointer_range", 32)
    # An argument that is known to be 1 is a constant. Up to 3.2 arguments are matched by position.
    constants = {**kernel.constexprs, **{function.parameters[place]: 1 for place in ones}}
    signature = {name: kernel.signature[name] for name in function.parameters if name in kernel.signature.keys() - constants}
    if release >= (3, 3):
        signature = {name: signature.get(name, "constexpr") for name in function.parameters}
        found: dict[tuple[int], list[list[object]]] = {}
        for hint, value, given in (("tt.divisibility", 16, divisible), ("tt.pointer_range", 32, ranged)):
            for place in given:
                found.setdefault((place,), []).append([hint, value])
        return {"hints": "attrs", "arguments": {"signature": signature, "constexprs": constants, "attrs": found}}
    arguments = {"signature": signature, "constants": constants}
    if not any(kernel.hints.values()):
        return {"hints": None, "arguments": arguments}
    if release >= (3, 2):
        known = {**dict.fromkeys(divisible, 16), **dict.fromkeys(ones, 1)}
        return {"hints": "from_hints", "known": known, "ranged": ranged, "arguments": {**arguments, "attrs": _Code("known")}}
    sets = f"AttrsDescriptor(divisible_by_16={set(divisible)}, equal_to_1={set(ones)})"
    return {"hints": "sets", "arguments": {**arguments, "attrs": _Code(sets)}}


class _Code(str):
    """A text that is Python already."""


def _code(value: object) -> str:
    """A value as Python."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_code(key)}: {_code(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_code, value))}]"
    if isinstance(value, str):
        return value if isinstance(value, _Code) or value.startswith("tl.") else json.dumps(value)
    return repr(value)
