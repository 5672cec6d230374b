"""The runtime's benchmark tool: what it is told, and what is read out of what it prints."""

from __future__ import annotations

from pathlib import Path

from tests.remedy.flag_compiler import a_case
from triage.compilers.iree.runner import IreeRunner
from triage.model.case import RunSpec

RUNNER = IreeRunner()


def test_a_function_is_measured_with_its_values() -> None:
    run = RunSpec(None, "f", ("4x8xf32", "0"))
    argv = RUNNER.benchmark_argv(Path("run"), Path("m.vmfb"), a_case(backend="llvm-cpu"), run, 1)
    assert {"--function=f", "--device=local-sync", "--input=4x8xf32", "--input=0"} <= set(argv)


def test_the_kernels_of_an_extracted_program_and_how_each_is_measured_alone() -> None:
    kernel = 'util.func public @k_elf_{}(%arg0: i32) attributes {{iree.reflection = {{iree.benchmark = "dispatch"}}}} {{'
    text = "\n".join(["hal.executable private @k {", "util.func private @k_elf_no(%arg0: i32) {", *map(kernel.format, "ab")])
    assert RUNNER.extracted(text) == [("k", "--benchmark_filter=^BM_k_elf_a/"), ("k-2", "--benchmark_filter=^BM_k_elf_b/")]
    assert RUNNER.extracted("module {}") == []
