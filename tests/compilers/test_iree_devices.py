"""Devices that IREE's flags and modules declare, and flags that declare missing devices."""

from __future__ import annotations

import pytest

from triage.compilers.iree.devices import declared_by, declaring

DEVICE = "--iree-hal-target-device="
LOCAL = "--iree-hal-local-target-device-backends=llvm-cpu"


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
