"""A change to a case: steps that are applied together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from triage.classify.rules import DropFlag, GiveFlag, LeastValue
from triage.compilers.base import Constant, kernel_of
from triage.compilers.invocation import flag_name
from triage.model.case import Case, Flag, Input, InputKind


def is_for_tests(name: str) -> bool:
    """Whether an option, by its name, is one for the compiler's own tests."""
    return "test" in name.split("-")


@dataclass(frozen=True, slots=True)
class ReplaceFlags:
    """Replace all flags of these names."""

    flags: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class SetOption:
    """Launch the kernel with another value of an option."""

    name: str
    value: Constant
    why: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Use another case of the recipe's matrix; `differs` holds its values of the keys that differ."""

    case: Case
    differs: tuple[tuple[str, str], ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class RewrittenInput:
    """Compile a rewritten input. `change` describes it; `caveat`: how the meaning differs, empty if it does not."""

    path: Path
    change: str
    caveat: str = ""
    why: str = ""


ChangeStep = GiveFlag | DropFlag | ReplaceFlags | SetOption | Neighbour | RewrittenInput


@dataclass(frozen=True, slots=True)
class CaseChange:
    """Steps that are tried together. `limit`: how to narrow the value of the last step's flag."""

    steps: tuple[ChangeStep, ...]
    limit: LeastValue | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        added: list[str] = []
        for step in self.steps:
            match step:
                case GiveFlag(text):
                    added.append(text)
                case ReplaceFlags(flags):
                    added += flags
        return tuple(added)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the recipe's flags to drop, with their dashes."""
        return tuple(step.name for step in self.steps if isinstance(step, DropFlag))

    @property
    def input_change(self) -> str | None:
        """The change of the program or its launch; None if only flags change."""
        parts = []
        for step in self.steps:
            match step:
                case SetOption(name, value):
                    parts.append(f"{name}={value}")
                case Neighbour(_, differs):
                    parts += [f"{key}={value}" for key, value in differs]
                case RewrittenInput(_, change):
                    parts.append(change)
        return ", ".join(parts) or None

    @property
    def same_program(self) -> bool:
        """Whether the meaning of the program stays the same."""
        return not any(isinstance(step, Neighbour) or (isinstance(step, RewrittenInput) and step.caveat) for step in self.steps)

    @property
    def recomputes(self) -> bool:
        """Whether a flag changes the types of computations."""
        return any(isinstance(step, GiveFlag) and step.recomputes for step in self.steps)

    @property
    def checks_less(self) -> bool:
        """Whether a flag only disables a check."""
        return any(isinstance(step, GiveFlag) and step.checks_less for step in self.steps)

    @property
    def for_tests(self) -> bool:
        """Whether a flag is meant for the compiler's own tests: it may vanish in any release."""
        return any(is_for_tests(flag_name(text)) for text in self.flags)

    @property
    def text(self) -> str:
        """The change in readable form; it identifies the change."""
        dropped = (f"without {name}" for name in self.dropped)
        return " ".join([*self.flags, *dropped, *([self.input_change] if self.input_change else [])])

    @property
    def why(self) -> str:
        """The effect of the steps; empty if unknown."""
        return "; ".join(dict.fromkeys(step.why for step in self.steps if step.why))

    def applied(self, case: Case) -> Case:
        """Return the changed case. It has another name, so that its results are not mistaken for the case's."""
        name = f"{case.name} (remedy)"
        for step in self.steps:
            case = _apply(case, step)
        return replace(case, name=name, expect=())

    def with_value(self, value: int) -> CaseChange:
        """Return the change with another value of the flag to narrow."""
        assert self.limit is not None
        step = GiveFlag(f"--{self.limit.name}={value}", self.limit.why)
        return replace(self, steps=(*self.steps[:-1], step))


def combined(first: CaseChange, second: CaseChange) -> CaseChange:
    """Return both changes together; the flag to narrow comes last."""
    if first.limit is not None and second.limit is None:
        first, second = second, first
    return CaseChange((*first.steps, *second.steps), second.limit)


def contradict(first: CaseChange, second: CaseChange) -> bool:
    """Whether two changes concern the same flag, option or program."""
    return not _subjects(first).isdisjoint(_subjects(second))


def _subjects(change: CaseChange) -> set[str]:
    subjects = set()
    for step in change.steps:
        match step:
            case GiveFlag(name) | DropFlag(name):
                subjects.add(flag_name(name))
            case ReplaceFlags(flags):
                subjects.update(map(flag_name, flags))
            case SetOption(name):
                subjects.add(name)
            case Neighbour() | RewrittenInput():
                subjects.add("the program")
            case _:
                assert_never(step)
    return subjects


def _apply(case: Case, step: ChangeStep) -> Case:
    match step:
        case GiveFlag(text):
            return _with_flags(case, (text,))
        case ReplaceFlags(flags):
            return _with_flags(case, flags)
        case DropFlag(name):
            return replace(case, flags=_without(case.flags, flag_name(name)))
        case SetOption(name, value):
            kernel = kernel_of(case)
            assert kernel is not None
            return replace(case, spec=replace(kernel, options={**kernel.options, name: value}))
        case Neighbour(other):
            return other
        case RewrittenInput(path):
            return replace(case, input=Input(path, InputKind.MLIR))
        case _:
            assert_never(step)


def _with_flags(case: Case, texts: Sequence[str]) -> Case:
    kept = _without(case.flags, *map(flag_name, texts))
    return replace(case, flags=(*kept, *map(Flag, texts)))


def _without(flags: Sequence[Flag], *names: str) -> tuple[Flag, ...]:
    return tuple(flag for flag in flags if flag_name(flag.text) not in names)
