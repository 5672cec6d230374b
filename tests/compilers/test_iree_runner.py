"""The runtime's benchmark tool: what it is told, and what is read out of what it
prints.
"""

from __future__ import annotations

import pytest

from triage.compilers.iree.runner import IreeKernels, IreeRunner
from triage.model.outcome import Cause

KERNELS = IreeKernels()


def test_the_kernels_of_an_extracted_program_and_how_each_is_measured_alone() -> None:
    kernel = 'util.func public @k_elf_{}(%arg0: i32) attributes {{iree.reflection = {{iree.benchmark = "dispatch"}}}} {{'
    text = "\n".join(
        [
            "hal.executable private @k {",
            "util.func private @k_elf_no(%arg0: i32) {",
            *map(kernel.format, "ab"),
        ]
    )
    assert KERNELS.kernels_in(text) == [
        ("k", "--benchmark_filter=^BM_k_elf_a/"),
        ("k-2", "--benchmark_filter=^BM_k_elf_b/"),
    ]
    assert KERNELS.kernels_in("module {}") == []


@pytest.mark.parametrize(
    ("stderr", "cause", "reason"),
    [
        (
            "UNAVAILABLE; no devices; creating driver for device 'hip'",
            Cause.TARGET,
            "hip",
        ),
        ("ERROR: flag 'device_allocator' not recognized", Cause.FLAG, "allocator"),
        ("FAILED_PRECONDITION; the result differs", None, ""),
    ],
)
def test_what_the_runtime_cannot_do_says_nothing_about_the_compiler(
    stderr: str, cause: Cause | None, reason: str
) -> None:
    answer = IreeRunner().startup_failure(stderr)
    assert (answer and answer.cause) == cause
    assert answer is None or reason in answer.reason
