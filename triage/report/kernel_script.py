"""A script that compiles a kernel with the calls that one release of Triton understands, without triage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from packaging.version import InvalidVersion, Version

from triage.compilers.triton import Chip, chip_of
from triage.model.case import Constant, Kernel, Target
from triage.reduce.reproducer import Function, Reproducer

KERNEL_SCRIPT = "repro.py"
_NEWEST = (1000, 0)  # what a build without a version is taken for
Release = tuple[int, int]


def kernel_script(one: Reproducer, how: Kernel) -> str:
    """The script's text."""
    target, at = one.reduced.case.target, _release(one.bad.version)
    chip = chip_of(target.backend, target.chip or "")
    assert chip  # it was compiled for it
    limit = chip.shared_limit if one.failure.failure_class == "shared-memory-overflow" else None
    words = None if one.function is None else _Words(one.function, how, at)
    asks = ", which asks for a GPU when it has compiled" if at < (3, 0) else "; no GPU is needed"
    lines = [f'"""Compiles {one.source} ahead of time for {target.chip} as Triton {one.bad.revision.name} wants it{asks}."""']
    lines += [
        "",
        *(["import sys", ""] if limit else []),
        "import triton",
        *(words.imports(target) if words else _backend(target, at, described=False)),
        "",
    ]
    lines += _without_linker(target, at)
    lines += words.before if words else []
    if words is None:
        given = [f'"{one.source}"', *_targeted(how, target.backend, chip, at)]
    elif at < (2, 3):
        given = [words.function.name, *words.words, *_plain(how, chip.arch)]
    else:
        lines += ["source = ASTSource(", *(f"    {word}," for word in [f"fn={words.function.name}", *words.words]), ")"]
        given = ["source", *_targeted(how, target.backend, chip, at)]
    call = f"{'compiled = ' if limit else ''}triton.compile("
    lines += [call, *(f"    {word}," for word in given), ")"] if len(given) > 3 else [f"{call}{', '.join(given)})"]
    if limit:
        used = "compiled.metadata.shared" if at >= (3, 0) else "compiled.shared"
        lines += [f"if {used} > {limit}:", f'    sys.exit(f"{{{used}}} bytes of shared memory; {target.chip} has {limit}")']
    return "\n".join(lines) + "\n"


def _release(version: str | None) -> Release:
    try:
        known = Version(version or "")
    except InvalidVersion:
        return _NEWEST
    return known.major, known.minor


@dataclass(frozen=True, slots=True)
class _Words:
    """A kernel as a release wants it told."""

    function: Function
    how: Kernel
    at: Release

    def imports(self, target: Target) -> list[str]:
        """What the source is made with, after `import triton`."""
        lines = ["import triton.language as tl"] if any(map(_is_type, self.how.constexprs.values())) else []
        lines += _backend(target, self.at, described=self.described)
        match self.at:
            case at if at >= (3, 2):
                lines.append("from triton.compiler import ASTSource")
            case at if at >= (2, 3):
                lines.append(f"from triton.compiler.compiler import ASTSource{', AttrsDescriptor' if self.described else ''}")
            case _:
                lines.append("from triton.compiler.compiler import instance_descriptor")
        return [*lines, "", f"from input import {self.function.name.partition('.')[0]}"]

    @property
    def before(self) -> list[str]:
        """Lines that make what the words name."""
        ranged = self._with("pointer_range", 32)
        if not (3, 2) <= self.at < (3, 3) or not ranged:
            return []
        return [
            f"known = AttrsDescriptor.from_hints({self._from_hints()})",
            'known.property_values["tt.pointer_range"] = 32',
            f'known.arg_properties["tt.pointer_range"] = {ranged}',
            "",
        ]

    @property
    def words(self) -> list[str]:
        """What a source is made of, or what 2.1 and 2.2 take in its place."""
        types, constants = dict(self.how.signature), self._constants()
        if self.at >= (3, 3):
            every = {name: "constexpr" if name in constants else types[name] for name in self.function.parameters}
            known = {f"({place},)": hints for place, hints in self._attributes().items()}
            return [
                f"signature={_quoted(every)}",
                *([f"constexprs={_named(constants)}"] if constants else []),
                *([f"attrs={_dictionary(known)}"] if known else []),
            ]
        order = [name for name in self.function.parameters if name in types]  # up to 3.2 it counts, not the names
        if self.at >= (3, 0):
            signature = _quoted({name: types[name] for name in order if name not in constants})
            more = [f"constants={_named(constants)}"] if constants else []
            return [f"signature={signature}", *more, *([f"attrs={self._descriptor()}"] if self.described else [])]
        signature = _dictionary({str(self._place(name)): f'"{types[name]}"' for name in order})
        by_place = _dictionary({str(self._place(name)): value for name, value in constants.items()})
        told = f"attrs={self._descriptor()}" if self.at >= (2, 3) else f"configs=[{self._descriptor()}]"
        return [f"signature={signature}", f"constants={by_place}", told]

    @property
    def described(self) -> bool:
        """Whether what is known of arguments has a name to be imported."""
        return self.at < (3, 3) and (self.at < (3, 0) or any(self.how.hints.values()))

    def _descriptor(self) -> str:
        """What is known of arguments, up to 3.2."""
        if self.at >= (3, 2):
            return "known" if self.before else f"AttrsDescriptor.from_hints({self._from_hints()})"
        name = "AttrsDescriptor" if self.at >= (2, 3) else "instance_descriptor"
        sets = (f"{{{', '.join(map(str, places))}}}" if places else "set()" for places in map(self._divisible, (16, 1)))
        return "{}(divisible_by_16={}, equal_to_1={})".format(name, *sets)

    def _from_hints(self) -> str:
        return _dictionary({str(place): str(value) for value in (16, 1) for place in self._divisible(value)})

    def _attributes(self) -> dict[int, str]:
        """By position, from 3.3 on."""
        found: dict[int, list[str]] = {}
        for hint, value in (("divisibility", 16), ("pointer_range", 32)):
            for place in self._with(hint, value):
                found.setdefault(place, []).append(f'["tt.{hint}", {value}]')
        return {place: f"[{', '.join(hints)}]" for place, hints in sorted(found.items())}

    def _constants(self) -> dict[str, str]:
        """As text; what is known to be 1 is folded as a constant is."""
        ones = {self.function.parameters[place]: "1" for place in self._divisible(1)}
        return {**{name: _constant(value) for name, value in self.how.constexprs.items()}, **ones}

    def _divisible(self, value: int) -> list[int]:
        return self._with("divisibility", value)

    def _with(self, hint: str, value: int) -> list[int]:
        return sorted(self._place(name) for name, hints in self.how.hints.items() if hints.get(hint) == value)

    def _place(self, name: str) -> int:
        return self.function.parameters.index(name)


def _backend(target: Target, at: Release, *, described: bool) -> list[str]:
    if at < (3, 0):
        return []
    amd = ["from triton.backends import backends"] if _lacks_linker(target, at) else []
    return [*amd, f"from triton.backends.compiler import {'AttrsDescriptor, ' if described and at >= (3, 2) else ''}GPUTarget"]


def _lacks_linker(target: Target, at: Release) -> bool:
    return target.backend == "hip" and (3, 0) <= at < (3, 5)


def _without_linker(target: Target, at: Release) -> list[str]:
    if not _lacks_linker(target, at):
        return []
    return [
        "# The last step of this release wants a linker that its wheel does not bring.",
        'backends["amd"].compiler.hash = lambda self: ""',
        'backends["amd"].compiler.make_hsaco = staticmethod(lambda *_: b"")',
        "",
    ]


def _targeted(how: Kernel, backend: str, chip: Chip, at: Release) -> list[str]:
    arch = chip.arch if chip.arch.isdigit() else f'"{chip.arch}"'
    target = f'GPUTarget("{backend}", {arch}, {chip.warp_size})' if at >= (3, 0) else f'("{backend}", {arch})'
    return [f"target={target}", *([f"options={_named(_texts(how.options))}"] if how.options else [])]


def _plain(how: Kernel, arch: str) -> list[str]:
    """2.1 and 2.2."""
    return [f"cc={arch}", 'device_type="cuda"', *(f"{name}={text}" for name, text in _texts(how.options).items())]


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
