"""Devices that a program refers to, and flags that declare all of them."""

from __future__ import annotations

from dataclasses import replace

from tests.remedy.flag_compiler import a_case
from triage.compilers.iree.devices import declaring_for
from triage.model.case import Case
from triage.remedy.change import CaseChange, ReplaceFlags

PROMISED = "#hal.device.promise<@__device_{}>"


def flags_for(case: Case, *names: str) -> tuple[str, ...] | None:
    return declaring_for(case, names)


def hip(count: int) -> tuple[str, ...]:
    return tuple(f"--iree-hal-target-device=hip[{ordinal}]" for ordinal in range(count))


def declaring_target(case: Case, count: int) -> Case:
    return replace(case, target=replace(case.target, devices=count))


def test_as_many_unnamed_flags_as_the_highest_number_needs() -> None:
    assert flags_for(declaring_target(a_case(), 7), "__device_7", "__device_2") == hip(8)
    assert flags_for(a_case(), "__device_1") == hip(2)
    assert flags_for(declaring_target(a_case(), 8), "__device_7") is None
    assert flags_for(a_case()) is None


def test_the_recipes_own_device_flags_are_replaced() -> None:
    case = a_case(*hip(2), "--other")
    flags = flags_for(case, "__device_2")
    assert flags
    applied = CaseChange((ReplaceFlags(flags),)).applied(case)
    assert [flag.text for flag in applied.flags] == ["--other", *hip(3)]
    assert flags_for(a_case(*hip(3)), "__device_2") is None


def test_one_named_device_names_all() -> None:
    case = a_case("--iree-hal-target-device=left=hip[0]")
    assert flags_for(case, "left", "right") == (
        "--iree-hal-target-device=left=hip[0]",
        "--iree-hal-target-device=right=hip[1]",
    )
    assert flags_for(case, "left") is None
