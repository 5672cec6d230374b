"""Devices that IREE's flags and modules declare, and flags that declare missing devices."""

from __future__ import annotations

import pytest

from triage.compilers.iree.devices import declared_by, declared_in, declaring, devices_in, target_of
from triage.mlir import parse_module

DEVICE = "--iree-hal-target-device="
LOCAL = "--iree-hal-local-target-device-backends=llvm-cpu"
KIND = '#hal.device.target<"local"> : !hal.device'


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], []),
        (["--iree-hal-target-backends=llvm-cpu"], ["__device_0"]),
        ([f"{DEVICE}local[7]"], ["__device_0"]),  # by position, whatever its ordinal
        ([f"{DEVICE}hip[0]", f"{DEVICE}hip[1]"], ["__device_0", "__device_1"]),
        ([f"{DEVICE}hip[0],hip[1]"], ["__device_0"]),  # a choice of two is one device
        ([f"{DEVICE}a=hip[0]", f"{DEVICE}b=hip[1]"], ["a", "b"]),
        (
            ["--iree-hal-target-backends=llvm-cpu", f"{DEVICE}local[0]", f"{DEVICE}local[1]"],
            ["__device_0"],
        ),  # the older flag wins
    ],
)
def test_devices_that_flags_declare(options: list[str], names: list[str]) -> None:
    declared = declared_by(options)
    assert (list(declared.devices), declared.problem) == (names, None)


def test_partly_named_devices_are_a_problem() -> None:
    declared = declared_by([f"{DEVICE}a=hip[0]", f"{DEVICE}hip[1]"])
    assert declared.problem is not None
    assert "hip[1]" in declared.problem


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ('"builtin.module"() ({\n}) : () -> ()', []),
        (
            f'"builtin.module"() ({{\n'
            f'"util.global"() <{{initial_value = {KIND}, sym_name = "a", type = !hal.device}}> : () -> ()\n'
            '"util.global"() <{sym_name = "b", type = tensor<4xf32>}> : () -> ()\n}) : () -> ()',
            ["a"],
        ),
        (f'"builtin.module"() ({{\n}}) {{hal.device.targets = [{KIND}, {KIND}]}} : () -> ()', ["__device_0", "__device_1"]),
        (f'"builtin.module"() ({{\n}}) {{hal.device.targets = {{a = {KIND}, b = {KIND}}}}} : () -> ()', ["a", "b"]),
    ],
)
def test_devices_that_a_module_declares(module: str, names: list[str]) -> None:
    assert list(declared_in(parse_module(module)).devices) == names


@pytest.mark.parametrize(
    ("devices", "backend", "given", "flags"),
    [
        (["__device_0", "__device_2"], "rocm", [], [f"{DEVICE}hip[0]", f"{DEVICE}hip[1]", f"{DEVICE}hip[2]"]),
        (["__device_1"], "llvm-cpu", [], [f"{DEVICE}local[0]", f"{DEVICE}local[1]", LOCAL]),
        (["__device_1"], "llvm-cpu", [LOCAL], [f"{DEVICE}local[0]", f"{DEVICE}local[1]"]),
        (["__device_1"], None, [f"{DEVICE}cuda[0]"], [f"{DEVICE}cuda[0]", f"{DEVICE}cuda[1]"]),
        (["a", "b"], "rocm", [], [f"{DEVICE}a=hip[0]", f"{DEVICE}b=hip[1]"]),
        (["__device_0", "b"], "rocm", [], [f"{DEVICE}__device_0=hip[0]", f"{DEVICE}b=hip[1]"]),
    ],
)
def test_flags_that_declare(devices: list[str], backend: str | None, given: list[str], flags: list[str]) -> None:
    found = declaring(devices, backend, given)
    assert list(found) == flags
    assert set(devices) <= declared_by([*given, *found] if not given or given == [LOCAL] else found).devices.keys()


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ([], (None, None)),
        (["--iree-hal-target-backends=rocm", "--iree-hip-target=gfx942"], ("rocm", "gfx942")),
        ([f"{DEVICE}hip[0]", f"{DEVICE}hip[1]", "--iree-rocm-target=gfx942"], ("rocm", "gfx942")),
        ([f"{DEVICE}a=local[0]", LOCAL], ("llvm-cpu", None)),
        ([f"{DEVICE}hip[0]", f"{DEVICE}cuda[0]"], (None, None)),
    ],
)
def test_target_of_flags(options: list[str], target: tuple[str | None, str | None]) -> None:
    assert target_of(options) == target


def test_references_in_every_spelling() -> None:
    text = '#hal.device.optimal<[#hal.device.affinity<@a, [0, 1]>, #hal.device.promise<@"b c">]>, #hal.device.fallback<@d>'
    assert list(devices_in(text)) == ["a", "b c", "d"]
