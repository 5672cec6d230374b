"""One way to alter a case, as steps that are applied to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from triage.classify.rules import DropFlag, GiveFlag, LeastValue
from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.model.case import Case, Constant, Flag, Input, InputKind

DEVICE_FLAG = "iree-hal-target-device"


@dataclass(frozen=True, slots=True)
class Devices:
    """Declare these devices and no others. flags: all that say so, in order."""

    flags: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class SetOption:
    """Launch the kernel with this value."""

    name: str
    value: Constant
    why: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Take another case of the recipe's matrix. differs: the keys that differ and their values there."""

    case: Case
    differs: tuple[tuple[str, str], ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Compile the program written in another way. what: the change in words; another: what the changed program is, where it
    does not mean the same.
    """

    path: Path
    what: str
    why: str = ""
    another: str = ""


Step = GiveFlag | DropFlag | Devices | SetOption | Neighbour | Rewritten


@dataclass(frozen=True, slots=True)
class CaseChange:
    """Steps that are tried together. least: the search that the value of its flag, the last step's, is to be narrowed by."""

    steps: tuple[Step, ...]
    least: LeastValue | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags to add to the command line."""
        found: list[str] = []
        for step in self.steps:
            match step:
                case GiveFlag(text):
                    found.append(text)
                case Devices(flags):
                    found += flags
                case DropFlag() | SetOption() | Neighbour() | Rewritten():
                    pass
                case _:
                    assert_never(step)
        return tuple(found)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the recipe's flags to leave away, with their dashes."""
        return tuple(step.name for step in self.steps if isinstance(step, DropFlag))

    @property
    def input_change(self) -> str | None:
        """What is compiled instead, where it is not the same program or launch; None where only flags differ."""
        parts = []
        for step in self.steps:
            match step:
                case SetOption(name, value):
                    parts.append(f"{name}={value}")
                case Neighbour(_, differs):
                    parts += [f"{key}={value}" for key, value in differs]
                case Rewritten(_, what):
                    parts.append(what)
                case GiveFlag() | DropFlag() | Devices():
                    pass
                case _:
                    assert_never(step)
        return ", ".join(parts) or None

    @property
    def same_program(self) -> bool:
        """Whether what is compiled means the same, however it is written or launched."""
        return not any(isinstance(step, Neighbour) or (isinstance(step, Rewritten) and step.another) for step in self.steps)

    @property
    def recomputes(self) -> bool:
        """Whether a flag makes it compute in other types."""
        return any(isinstance(step, GiveFlag) and step.recomputes for step in self.steps)

    @property
    def checks_less(self) -> bool:
        """Whether it only silences a check."""
        return any(isinstance(step, GiveFlag) and step.checks_less for step in self.steps)

    @property
    def text(self) -> str:
        """The change as a person reads it."""
        parts = [*self.flags, *(f"without {name}" for name in self.dropped)]
        return " ".join([*parts, *([self.input_change] if self.input_change else [])])

    @property
    def why(self) -> str:
        """What the steps do, in words; empty where nothing is known."""
        return "; ".join(dict.fromkeys(step.why for step in self.steps if step.why))

    def applied(self, case: Case) -> Case:
        """The case with all steps taken. It has a name of its own, so that its failures are not taken for the case's."""
        name = f"{case.name} (remedy)"
        for step in self.steps:
            case = _apply(case, step)
        return replace(case, name=name, expect=())

    def with_value(self, value: int) -> CaseChange:
        """The same with another value of the flag that `least` is about."""
        assert self.least is not None
        step = GiveFlag(f"--{self.least.name}={value}", self.least.why)
        return replace(self, steps=(*self.steps[:-1], step))


def one(step: Step) -> CaseChange:
    """A change of a single step."""
    return CaseChange((step,))


def both(first: CaseChange, second: CaseChange) -> CaseChange:
    """Two changes at once. What is to be narrowed stands last."""
    if first.least is not None and second.least is None:
        first, second = second, first
    return CaseChange((*first.steps, *second.steps), second.least)


def contradict(first: CaseChange, second: CaseChange) -> bool:
    """Whether two changes speak of the same flag, option or program, so that they cannot be made together."""
    return bool(_subjects(first.steps) & _subjects(second.steps))


def _subjects(steps: Sequence[Step]) -> set[str]:
    subjects = set()
    for step in steps:
        match step:
            case GiveFlag(text):
                subjects.add(flag_name(text))
            case DropFlag(name):
                subjects.add(flag_name(name))
            case SetOption(name):
                subjects.add(name)
            case Devices():
                subjects.add(DEVICE_FLAG)
            case Neighbour() | Rewritten():
                subjects.add("the program")
            case _:
                assert_never(step)
    return subjects


def _apply(case: Case, step: Step) -> Case:
    match step:
        case GiveFlag(text):
            return replace(case, flags=(*_without(case.flags, flag_name(text)), Flag(text)))
        case DropFlag(name):
            return replace(case, flags=_without(case.flags, flag_name(name)))
        case Devices(flags):
            kept = case.flags
            for name in {flag_name(text) for text in flags}:
                kept = _without(kept, name)
            return replace(case, flags=(*kept, *map(Flag, flags)))
        case SetOption(name, value):
            kernel = family_of(case).kernel(case)
            assert kernel is not None
            return replace(case, spec=replace(kernel, options={**kernel.options, name: value}))
        case Neighbour(other):
            return other
        case Rewritten(path):
            return replace(case, input=Input(path, InputKind.MLIR))
        case _:
            assert_never(step)


def own_devices(case: Case) -> tuple[str, ...]:
    """The devices that the recipe's own flags declare, such as `hip[0]` or `left=hip[0]`."""
    texts = (flag.text.partition("=") for flag in case.flags)
    return tuple(value for name, _, value in texts if flag_name(name) == DEVICE_FLAG)


def _without(flags: Sequence[Flag], name: str) -> tuple[Flag, ...]:
    return tuple(flag for flag in flags if flag_name(flag.text) != name)
