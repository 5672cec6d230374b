"""A Triton kernel as recipe keys, and as a script that compiles it without triage."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from packaging.version import InvalidVersion, Version

from triage.compilers.base import Constant, KernelSpec
from triage.compilers.repro_script import PythonFunction, StandaloneCall, StandaloneCompile
from triage.compilers.triton.chips import Chip, chip_of
from triage.model.case import Target
from triage.recipes.values import yaml_text

SCRIPT = "repro.py"
_PYTHON = "3.11"  # every release from 2.1 on has a wheel for it
_WITHOUT_TORCH = [
    "import json",
    "import sys",
    "from pathlib import Path",
    "from types import SimpleNamespace",
    "from unittest.mock import MagicMock",
    "",
    "# This release imports torch, which a compile ahead of time does not need.",
    'sys.modules["torch"] = MagicMock(**{"version.hip": None})',
    "",
]
_WITHOUT_DRIVER = [
    "# Do not ask for a GPU, and do not build or load the launcher.",
    "compiler.get_backend = lambda _: MagicMock()",
    'compiler.get_cuda_version_key = compiler.make_stub = lambda *_, **__: ""',
    "compiler.CompiledKernel = lambda _function, _launcher, metadata, _code: SimpleNamespace(**metadata)",
    "",
]
_WITHOUT_DRIVER_2_3 = [
    "# Do not build or load the launcher, which needs a GPU.",
    'compiler.CUDABackend.make_launcher_stub = lambda *_: ""',
    "compiler.CompiledKernel = lambda _, file: SimpleNamespace(**json.loads(Path(file).read_text()))",
    "",
]
_NEWEST = Version("1000")  # assumed for a build without a version
Release = tuple[int, int]


def kernel_keys(kernel: KernelSpec) -> Iterator[str]:
    """The recipe keys of a kernel, one YAML line each; reading them gives the same kernel."""
    types = dict(kernel.signature)
    hints = {name: dict(given) for name, given in kernel.hints.items()}
    for name, given in hints.items():
        if name in types and given.get("divisibility") in (1, 16):
            types[name] = f"{types[name]}:{given.pop('divisibility')}"
    if kernel.name is not None:
        yield f"kernel: {yaml_text(kernel.name)}"
    yield f"signature: {yaml_text(types)}"
    if kernel.constexprs:
        yield f"constexprs: {yaml_text(kernel.constexprs)}"
    left = {name: given for name, given in hints.items() if given}
    if left:
        yield f"hints: {yaml_text(left)}"
    if kernel.options:
        yield f"options: {yaml_text(kernel.options)}"


def call(task: StandaloneCompile) -> StandaloneCall:
    """Run the script beside the kernel. pip also installs what Triton imports but its wheel does not require."""
    words = ("python3", SCRIPT)
    install = " ".join(_packages(task)) or None
    check = '"${PYTHON:-python3}" -c "import triton" || exit 127'
    remark = "\n# Set PYTHON to the interpreter that has it."
    return StandaloneCall(install, words, f'"${{PYTHON:-python3}}" {SCRIPT}', remark, (check,))


def _packages(task: StandaloneCompile) -> list[str]:
    """The requirements of the script: the release, and what it imports but its wheel does not require."""
    version = _parsed(task.version)
    unlisted = ["numpy"] if version < Version("3.0") else []
    unlisted += ["setuptools"] if version < Version("3.3") else []
    return [task.requirement, *unlisted] if task.requirement else []


def _description(task: StandaloneCompile) -> list[str]:
    """The first lines of the script: what it does, and a command that runs it anywhere."""
    does = f"Compile {task.source} ahead of time for {task.case.target.chip} with Triton {task.release}; no GPU is needed."
    if not (packages := _packages(task)):
        return [f'"""{does}"""']
    wanted = [word for package in packages for word in ("--with", package)]
    command = shlex.join(["uv", "run", "--no-project", "--python", _PYTHON, *wanted, SCRIPT])
    return [f'"""{does}', "", f"    {command}", '"""']


def _parsed(version: str | None) -> Version:
    try:
        return Version(version or "")
    except InvalidVersion:
        return _NEWEST


def script(task: StandaloneCompile, kernel: KernelSpec) -> str:
    """A script that compiles the kernel with the calls of that Triton release."""
    target, version = task.case.target, _parsed(task.version)
    release = version.major, version.minor
    chip = chip_of(target.backend, target.chip or "")
    assert chip  # it was compiled for it
    limit = chip.shared_limit if task.failure_class == "shared-memory-overflow" else None
    source = None if task.function is None else _KernelSource(task.function, kernel, release)
    lines = [
        *_description(task),
        "",
        *(_WITHOUT_TORCH if release < (3, 0) else ["import sys", ""] if limit else []),
        "import triton",
        *(source.imports(target) if source else _backend(target, release, described=False)),
        "",
    ]
    lines += _without_linker(target, release)
    lines += (_WITHOUT_DRIVER_2_3 if release >= (2, 3) else _WITHOUT_DRIVER) if release < (3, 0) else []
    lines += source.before if source else []
    if source is None:
        arguments = [f'"{task.source}"', *_targeted(kernel, target.backend, chip, release)]
    elif release < (2, 3):
        arguments = [source.function.name, *source.arguments, *_plain(kernel, chip.arch)]
    else:
        entries = [f"fn={source.function.name}", *source.arguments]
        lines += ["source = ASTSource(", *(f"    {entry}," for entry in entries), ")"]
        arguments = ["source", *_targeted(kernel, target.backend, chip, release)]
    call = f"{'compiled = ' if limit else ''}triton.compile("
    if len(arguments) > 3:
        lines += [call, *(f"    {argument}," for argument in arguments), ")"]
    else:
        lines.append(f"{call}{', '.join(arguments)})")
    if limit:
        used = "compiled.metadata.shared" if release >= (3, 0) else "compiled.shared"
        lines += [f"if {used} > {limit}:", f'    sys.exit(f"{{{used}}} bytes of shared memory; {target.chip} has {limit}")']
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _KernelSource:
    """The source arguments of a kernel for one release."""

    function: PythonFunction
    kernel: KernelSpec
    release: Release

    def imports(self, target: Target) -> list[str]:
        """Imports after `import triton`."""
        lines = ["import triton.language as tl"] if any(map(_is_type, self.kernel.constexprs.values())) else []
        lines += _backend(target, self.release, described=self.described)
        match self.release:
            case release if release >= (3, 2):
                lines.append("from triton.compiler import ASTSource")
            case release if release >= (2, 3):
                lines.append(f"from triton.compiler.compiler import ASTSource{', AttrsDescriptor' if self.described else ''}")
            case _:
                lines.append("from triton.compiler.compiler import instance_descriptor")
        if self.release < (3, 0):
            lines.insert(0, "from triton.compiler import compiler")
        return [*lines, "", f"from input import {self.function.name.partition('.')[0]}"]

    @property
    def before(self) -> list[str]:
        """Statements that the arguments refer to."""
        ranged = self._with("pointer_range", 32)
        if not (3, 2) <= self.release < (3, 3) or not ranged:
            return []
        return [
            f"known = AttrsDescriptor.from_hints({self._from_hints()})",
            'known.property_values["tt.pointer_range"] = 32',
            f'known.arg_properties["tt.pointer_range"] = {ranged}',
            "",
        ]

    @property
    def arguments(self) -> list[str]:
        """Arguments of `ASTSource`, or of `triton.compile` in 2.1 and 2.2."""
        types, constants = dict(self.kernel.signature), self._constants()
        if self.release >= (3, 3):
            every = {name: "constexpr" if name in constants else types[name] for name in self.function.parameters}
            known = {f"({place},)": hints for place, hints in self._attributes().items()}
            return [
                f"signature={_quoted(every)}",
                *([f"constexprs={_named(constants)}"] if constants else []),
                *([f"attrs={_dictionary(known)}"] if known else []),
            ]
        order = [name for name in self.function.parameters if name in types]  # up to 3.2 arguments are matched by position
        if self.release >= (3, 0):
            signature = _quoted({name: types[name] for name in order if name not in constants})
            more = [f"constants={_named(constants)}"] if constants else []
            return [f"signature={signature}", *more, *([f"attrs={self._descriptor()}"] if self.described else [])]
        signature = _dictionary({str(self._place(name)): f'"{types[name]}"' for name in order})
        by_place = _dictionary({str(self._place(name)): value for name, value in constants.items()})
        hints = f"attrs={self._descriptor()}" if self.release >= (2, 3) else f"configs=[{self._descriptor()}]"
        return [f"signature={signature}", f"constants={by_place}", hints]

    @property
    def described(self) -> bool:
        """Whether the hints need a class to be imported."""
        return self.release < (3, 3) and (self.release < (3, 0) or any(self.kernel.hints.values()))

    def _descriptor(self) -> str:
        """Hints, up to 3.2."""
        if self.release >= (3, 2):
            return "known" if self.before else f"AttrsDescriptor.from_hints({self._from_hints()})"
        name = "AttrsDescriptor" if self.release >= (2, 3) else "instance_descriptor"
        sets = (f"{{{', '.join(map(str, places))}}}" if places else "set()" for places in map(self._divisible, (16, 1)))
        return "{}(divisible_by_16={}, equal_to_1={})".format(name, *sets)

    def _from_hints(self) -> str:
        return _dictionary({str(place): str(value) for value in (16, 1) for place in self._divisible(value)})

    def _attributes(self) -> dict[int, str]:
        """Hints by position, from 3.3 on."""
        found: dict[int, list[str]] = {}
        for hint, value in (("divisibility", 16), ("pointer_range", 32)):
            for place in self._with(hint, value):
                found.setdefault(place, []).append(f'["tt.{hint}", {value}]')
        return {place: f"[{', '.join(hints)}]" for place, hints in sorted(found.items())}

    def _constants(self) -> dict[str, str]:
        """Constants as source text; an argument known to be 1 becomes a constant."""
        ones = {self.function.parameters[place]: "1" for place in self._divisible(1)}
        return {**{name: _constant(value) for name, value in self.kernel.constexprs.items()}, **ones}

    def _divisible(self, value: int) -> list[int]:
        return self._with("divisibility", value)

    def _with(self, hint: str, value: int) -> list[int]:
        return sorted(self._place(name) for name, hints in self.kernel.hints.items() if hints.get(hint) == value)

    def _place(self, name: str) -> int:
        return self.function.parameters.index(name)


def _backend(target: Target, release: Release, *, described: bool) -> list[str]:
    if release < (3, 0):
        return []
    amd = ["from triton.backends import backends"] if _lacks_linker(target, release) else []
    return [
        *amd,
        f"from triton.backends.compiler import {'AttrsDescriptor, ' if described and release >= (3, 2) else ''}GPUTarget",
    ]


def _lacks_linker(target: Target, release: Release) -> bool:
    return target.backend == "hip" and (3, 0) <= release < (3, 5)


def _without_linker(target: Target, release: Release) -> list[str]:
    if not _lacks_linker(target, release):
        return []
    return [
        "# The last step of this release needs a linker that its wheel does not contain.",
        'backends["amd"].compiler.hash = lambda self: ""',
        'backends["amd"].compiler.make_hsaco = staticmethod(lambda *_: b"")',
        "",
    ]


def _targeted(kernel: KernelSpec, backend: str, chip: Chip, release: Release) -> list[str]:
    arch = chip.arch if chip.arch.isdigit() else f'"{chip.arch}"'
    target = f'GPUTarget("{backend}", {arch}, {chip.warp_size})' if release >= (3, 0) else f'("{backend}", {arch})'
    return [f"target={target}", *([f"options={_named(_texts(kernel.options))}"] if kernel.options else [])]


def _plain(kernel: KernelSpec, arch: str) -> list[str]:
    """Target arguments of 2.1 and 2.2."""
    return [f"cc={arch}", 'device_type="cuda"', *(f"{name}={text}" for name, text in _texts(kernel.options).items())]


def _texts(given: Mapping[str, Constant]) -> dict[str, str]:
    return {name: _constant(value) for name, value in given.items()}


def _constant(value: Constant) -> str:
    return value if _is_type(value) else repr(value)


def _is_type(value: Constant) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("tl.")


def _quoted(given: Mapping[str, str]) -> str:
    return _named({name: f'"{text}"' for name, text in given.items()})


def _named(given: Mapping[str, str]) -> str:
    return _dictionary({f'"{name}"': text for name, text in given.items()})


def _dictionary(given: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {text}' for key, text in given.items())}}}"
