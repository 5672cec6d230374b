"""Guessed values are corrected by what a compiler says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triage.compilers.triton.kernel_import import KernelStart, start_from_kernel
from triage.compilers.triton.kernel_trial import improve_guess
from triage.model.execution import Captured, Ending, Execution

KERNEL = """import triton
import triton.language as tl

@triton.jit
def gather(out, rows, kind: tl.constexpr, N: tl.constexpr):
    row = tl.load(rows + tl.arange(0, N))
    value = row * 2
    tl.store(out + tl.arange(0, N), value.to(helper(kind)))
"""


def executed(refused: tuple[int, list[str], str] | None) -> Execution:
    stdout = 'triage: {"stage": "ttir"}\n'
    if refused is None:
        return Execution(("x",), Ending.EXITED, 0, None, 0, 0, 0, Captured(stdout), Captured())
    line, names, message = refused
    report = json.dumps({"refused": {"line": line, "names": names}})
    error = f"error: the kernel's language refuses it: {message}\n"
    return Execution(("x",), Ending.EXITED, 1, None, 0, 0, 0, Captured(f"triage: {report}\n"), Captured(error))


@pytest.fixture
def start(tmp_path: Path) -> KernelStart:
    (tmp_path / "kernel.py").write_text(KERNEL)
    start = start_from_kernel(tmp_path / "new.yaml", tmp_path / "kernel.py", None, None, None)
    assert isinstance(start, KernelStart)
    return start


def test_each_error_leads_to_the_value_that_it_is_about(start: KernelStart) -> None:
    seen = []

    def compile_(candidate: KernelStart) -> Execution:
        guess = candidate.guess
        assert guess
        seen.append(guess)
        if guess.signature["rows"] != "*i32:16":
            return executed((4, ["value", "row"], "TypeError('unexpected type fp16')"))
        if not str(guess.constexprs["kind"]).startswith("tl."):
            return executed((5, ["kind", "value", "out"], "AttributeError(\"'int' object has no attribute 'scalar'\")"))
        return executed(None)

    better = improve_guess(start, compile_)
    assert better.guess is not None
    assert better.guess.signature == {"out": "*fp16:16", "rows": "*i32:16"}
    assert better.guess.constexprs["kind"] == "tl.float32"
    assert len(seen) <= 12
    assert '  rows: "*i32:16"  # guessed' in better.keys
    assert len({str(guess) for guess in seen}) == len(seen)


def test_values_that_never_compile_end_after_a_number_of_compiles(start: KernelStart) -> None:
    compiles = []

    def compile_(candidate: KernelStart) -> Execution:
        compiles.append(candidate)
        return executed((1, ["rows"], f"ValueError('reason {len(compiles)}')"))

    improve_guess(start, compile_)
    assert len(compiles) <= 30


def test_a_file_that_cannot_be_imported_is_replaced_by_its_kernel(start: KernelStart) -> None:
    def compile_(candidate: KernelStart) -> Execution:
        if candidate.copied is None:
            return Execution(("x",), Ending.EXITED, 1, None, 0, 0, 0, Captured(), Captured("RuntimeError: no GPU\n"))
        return executed(None)

    better = improve_guess(start, compile_)
    assert better.copied is not None
    assert better.input.name == "new.py"
