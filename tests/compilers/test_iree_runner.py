"""The runtime's benchmark tool: what it is told, and what is read out of what it
prints.
"""

from __future__ import annotations

from triage.compilers.iree.runner import IreeKernels

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
    assert KERNELS.extracted(text) == [
        ("k", "--benchmark_filter=^BM_k_elf_a/"),
        ("k-2", "--benchmark_filter=^BM_k_elf_b/"),
    ]
    assert KERNELS.extracted("module {}") == []
