"""List the changes of a case to try: known remedies of its failure, its flags, the
compiler's own options, and the program with static shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from triage.classify.rules import RemedyCandidate
from triage.compilers.base import Compiler, kernel_of
from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.judge import rules_of
from triage.execution.mlir_tools import Reader
from triage.execution.task import Prepared, ProbeJob
from triage.mlir import (
    Module,
    Operation,
    UnparsableError,
    Value,
    parse_module,
    print_module,
)
from triage.mlir.tree import CANONICALIZE, arguments_of, retype_function, symbols
from triage.model.case import Case, Flag, Input, InputKind
from triage.model.outcome import Failure, Probe
from triage.model.revision import Toolchain
from triage.recipes.expectations import applied_flags
from triage.recipes.recipe import FILE
from triage.remedy.result import Change, Weakness
from triage.toolchains.home import KeptKind, save_file
from triage.toolchains.registry import ToolchainRef

_LARGEST = 2 << 20  # bytes of an input; parsing takes seconds for each size
_SPLIT_DIMENSION = re.compile(r"\?x(\d{1,18})(?=x)")
_MOST_SPLITS = 12
# tried in order: reshapes and divisibility in the program exclude some
_SIZES = (64, 128, 256, 1024)


@dataclass(frozen=True)
class ChangedCase:
    """A change to try."""

    change: Change
    case: Case
    """The changed case. Its name differs, so that its results are not taken for the
    original's.
    """


@dataclass(frozen=True)
class Situation:
    """The case that fails on `bad`, and all that decides which candidates there are."""

    engine: Engine
    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    """It passes there; options that this toolchain lacks are tried first."""
    siblings: Sequence[Case] = ()
    """The recipe's cases."""

    @cached_property
    def failing(self) -> Probe:
        return self.engine.probe(ProbeJob(self.case, self.bad))

    @property
    def failure(self) -> Failure:
        assert self.failing.outcome.failure
        return self.failing.outcome.failure

    @cached_property
    def toolchain(self) -> Toolchain:
        return self.engine.registry.obtain(self.bad)

    @property
    def family(self) -> Compiler:
        return family_of(self.case)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The recipe's own flags for this version."""
        return tuple(applied_flags(self.case, self.toolchain.version))

    @cached_property
    def program(self) -> Path | None:
        """The program as the compiler reads it."""
        prepared = self.engine.inputs.input_of(self.case, self.toolchain)
        if isinstance(prepared, Prepared):
            return prepared.path
        return None

    def accepts(self, name: str) -> bool:
        """Return whether the compiler knows an option that fits the backend. A compiler
        that lists no options accepts any.
        """
        flags = self.toolchain.capabilities.flags
        if flags and name not in flags:
            return False
        return not self.family.remedy_options.is_of_other_backend(
            name, self.case.target.backend
        )

    def with_change(self, change: Change, other: Case | None = None) -> ChangedCase:
        """Return the candidate for a change of flags or, with `other`, of the input."""
        case = other or self.case
        replaced = {flag_name(text) for text in (*change.flags, *change.dropped_flags)}
        flags = [flag for flag in case.flags if flag_name(flag.text) not in replaced]
        flags += map(Flag, change.flags)
        name = f"{self.case.name} (remedy)"
        case = replace(case, name=name, flags=tuple(flags), expect=())
        return ChangedCase(change, case)

    def with_flag(self, text: str, effect: str, weakness: Weakness) -> ChangedCase:
        if not weakness and "test" in flag_name(text).split("-"):
            weakness = Weakness.FOR_TESTS
        return self.with_change(Change(flags=(text,), effect=effect, weakness=weakness))


def known_remedies(situation: Situation) -> Iterator[ChangedCase]:
    """Yield the candidates that are always tried: those of the failure's class, then
    each flag of the recipe left out, then the neighbours in the matrix.
    """
    case = situation.case
    rule = rules_of(case).by_name.get(situation.failure.failure_class)
    for candidate in rule.candidates_for(case.compiler) if rule else ():
        yield from _changes_of_rule(candidate, situation)
    for name in dict.fromkeys(text.partition("=")[0] for text in situation.flags):
        if "target" not in name:
            yield situation.with_change(Change(dropped_flags=(name,)))
    for sibling in situation.siblings:
        changed = dict(set(sibling.matrix) - set(case.matrix))
        if len(changed) == 1 and FILE not in changed and sibling.target == case.target:
            text = "=".join(*changed.items())
            change = Change(input_change=text, weakness=Weakness.OTHER_PROGRAM)
            yield situation.with_change(change, sibling)


def _changes_of_rule(
    rule: RemedyCandidate, situation: Situation
) -> Iterator[ChangedCase]:
    """Yield the changes that a rule's candidate stands for, if they fit the case."""
    case = situation.case
    effect = rule.why
    if rule.give and situation.accepts(flag_name(rule.give)):
        weakness = Weakness.NONE
        if rule.recomputes:
            weakness = Weakness.OTHER_TYPES
        if rule.checks_less:
            weakness = Weakness.CHECKS_LESS
        for flag in [f"{rule.give}={value}" for value in rule.values] or [rule.give]:
            if flag not in situation.flags:
                yield situation.with_flag(flag, effect, weakness)
    if rule.declare and situation.program:
        device = situation.failure.details.get("device")
        named = [device] if isinstance(device, str) else []
        family = situation.family
        program = situation.program
        options = family.declaring_options(case, program, named)
        if options:
            yield situation.with_change(Change(flags=options, effect=effect))
    kernel = kernel_of(case)
    if rule.option and kernel:
        for value in rule.values:
            if kernel.options.get(rule.option) != value:
                spec = replace(kernel, options={**kernel.options, rule.option: value})
                change = Change(input_change=f"{rule.option}={value}", effect=effect)
                yield situation.with_change(change, replace(case, spec=spec))
    if rule.rewrite and situation.program:
        yield from _static_programs(situation, situation.program, effect)


def compiler_options(situation: Situation) -> Iterator[ChangedCase]:
    """Yield the compiler's own options, those nearest to the failure first. Each has
    all its values, because its default is not known.
    """
    catalog = situation.family.remedy_options
    known = situation.toolchain.capabilities.flags
    for text in (*catalog.first, *_switches(situation)):
        weakness = Weakness.NONE
        if _contains(text, catalog.recomputes):
            weakness = Weakness.OTHER_TYPES
        if flag_name(text) in known and text not in situation.flags:
            yield situation.with_flag(text, "", weakness)


def _switches(situation: Situation) -> Iterator[str]:
    """Yield the compiler's options for the failing phase: those that the good compiler
    lacks come first, then those nearest to the phase.
    """
    catalog = situation.family.remedy_options
    capabilities = situation.toolchain.capabilities
    backend = situation.case.target.backend
    good = situation.good
    old = capabilities.flags
    if good:
        old = situation.engine.registry.obtain(good).capabilities.flags
    phase = situation.failure.phase or situation.case.phase or ""
    prefixes = catalog.prefixes(phase, backend)

    def rank(name: str) -> tuple[bool, int, str]:
        fits = [name.startswith(prefix) for prefix in prefixes]
        return name in old, fits.index(True), name

    eligible = [
        name
        for name in (*capabilities.switches, *capabilities.choices)
        if name.startswith(prefixes)
        and not catalog.is_of_other_backend(name, backend)
        and not _contains(name, catalog.never)
    ]
    for name in sorted(eligible, key=rank):
        values = capabilities.choices.get(name) or ("false", "true")
        if name in capabilities.switches and _contains(name, catalog.only_true):
            values = ("true",)
        yield from (f"--{name}={value}" for value in values)


def _contains(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _static_programs(
    situation: Situation, source: Path, effect: str
) -> Iterator[ChangedCase]:
    """Save the program with static shapes, and yield it, if it has dynamic ones and the
    toolchain's tools can read it.
    """
    engine = situation.engine
    tools = situation.family.mlir_tools(situation.toolchain)
    if tools is None or source.stat().st_size > _LARGEST:
        return
    reader = Reader(tools, engine.stop)
    try:
        rewritten = with_static_shapes(reader, reader.generic_form(source) or "")
    finally:
        reader.close()
    if rewritten:
        text, sizes = rewritten
        folder = engine.registry.home.folder(KeptKind.REMEDIES)
        path = folder / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
        save_file(path, text, "write a changed input")
        weakness = Weakness.OTHER_PROGRAM
        change = Change(
            input_change=sizes, input=str(path), effect=effect, weakness=weakness
        )
        case = replace(situation.case, input=Input(path, InputKind.MLIR))
        yield situation.with_change(change, case)


def with_static_shapes(reader: Reader, generic: str) -> tuple[str, str] | None:
    """Make the first valid program with static shapes, in readable syntax, and describe
    its sizes. `generic` is the program in generic form. The toolchain's
    canonicalization propagates the sizes through the program.
    """
    with suppress(UnparsableError):
        for module, sizes in static_candidates(generic):
            text = reader.text_after_passes(print_module(module), CANONICALIZE)
            if text is not None:
                return text, sizes
    return None


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield modules with static shapes of arguments, made from a text in generic form,
    and describe the sizes. Not all are valid programs.

    First, all unknown dimensions get the same size. Then one type of arguments gets a
    multiple of it, because another type may split the same dimension in two.
    """
    smallest = _SIZES[0]
    functions = _functions_never_called(parse_module(text))
    types = {value.type for function in functions for value in arguments_of(function)}
    dynamic = {type_ for type_ in types if _is_dynamic(type_)}
    split = {
        (smallest * int(factor), type_)
        for type_ in dynamic
        for other in dynamic - {type_}
        for factor in _SPLIT_DIMENSION.findall(other)
    }
    changes = [(size, 0, "") for size in _SIZES if dynamic]
    changes += [(smallest, size, type_) for size, type_ in sorted(split)[:_MOST_SPLITS]]
    for size, larger, type_ in changes:
        module = parse_module(text)
        _set_static_arguments(module, size, {type_: larger})
        sizes = f"unknown dimensions of the arguments set to {size}"
        yield module, f"{sizes}, of {type_} {larger}" if type_ else sizes


def _is_dynamic(type_: str) -> bool:
    return type_.startswith("tensor<") and "?" in type_


def _set_static_arguments(module: Module, size: int, others: Mapping[str, int]) -> None:
    """Give arguments static shapes, in place, and cast them to the types that the body
    uses. `size` is what unknown dimensions become, `others` what those of some types
    become.
    """
    for function in _functions_never_called(module):
        block = function.regions[0].blocks[0]
        for index, argument in enumerate(block.arguments):
            if _is_dynamic(argument.type):
                wanted = str(others.get(argument.type, size))
                static = Value(argument.type.replace("?", wanted), argument.origin)
                block.arguments[index] = static
                # The old value becomes the result of the cast, so that its users stay
                # as they are.
                cast = Operation("tensor.cast", [static], [argument])
                block.operations.insert(0, cast)
        retype_function(function)


def _functions_never_called(module: Module) -> list[Operation]:
    """Return the functions that the module does not call, so that their types may
    change.
    """
    called = {
        name
        for operation in module.walk()
        for text in operation.texts()
        for name in symbols(text)
    }
    functions = module.functions()
    return [function for function in functions if function.symbol not in called]
