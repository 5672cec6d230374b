"""A crash is identified by its stack: the innermost function that is not one of a
header, and the pass on the stack.
"""

from __future__ import annotations

import pytest

from tests.classify.samples import scan_output
from triage.classify import diagnose, packaged_rules
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Failure

HANDLER = """// -----// IR Dump Before LLVMDIScope (enable-line-info) ('builtin.module' operation) //----- //
Stack dump:
0.\tProgram arguments: iree-compile m.mlir
 #0 0x00007fffeedb49a8 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (lib.so+0x1)
 #1 0x00007fffeedb231e llvm::sys::RunSignalHandlers() (lib.so+0x2)
 #2 0x00007fffe885a050 (libc.so.6+0x3c050)
"""
IN_MLIR = """ #3 0x00007ffff0f703e2 mlir::FloatType::getWidth() (lib.so+0x3)
 #4 0x00007ffff0f703e3 mlir::Type::getIntOrFloatBitWidth() const (lib.so+0x4)
 #5 0x00007ffff0f703e4 mlir::iree_compiler::IREE::GPU::getMmaSchedule(mlir::TypeRange, bool) (lib.so+0x5)
 #6 0x00007ffff0f703e5 mlir::iree_compiler::setRootConfig(mlir::Operation*) (lib.so+0x6)
 #7 0x00007ffff0f703e6 mlir::(anonymous namespace)::SelectPass::runOnOperation() (lib.so+0x7)
 #8 0x00007fffef124bdb mlir::detail::OpToOpPassAdaptor::run(mlir::Pass*, mlir::Operation*) (lib.so+0x8)
"""
IN_LLVM = """ #3 0x00007ffff0f703e2 (anonymous namespace)::HorizontalReduction::tryToReduce(BoUpSLP&) (lib.so+0x3)
 #4 0x00007ffff0f703e3 llvm::SLPVectorizerPass::vectorizeRootInstruction(llvm::PHINode*) (lib.so+0x4)
 #5 0x00007ffff0f703e4 llvm::SLPVectorizerPass::runImpl(llvm::Function&) (lib.so+0x5)
 #6 0x00007ffff0f703e5 llvm::detail::PassModel<llvm::Function, llvm::SLPVectorizerPass>::run(llvm::Function&) (lib.so+0x6)
 #7 0x00007ffff0f703e6 mlir::(anonymous namespace)::SerializePass::runOnOperation() (lib.so+0x7)
"""
OUTSIDE = """ #3 0x00007ffff0f703e2 mlir::translate(mlir::Operation*) (lib.so+0x3)
 #4 0x00007ffff0f703e3 compile(int) (lib.so+0x4)
"""
STRIPPED = """ #3 0x00007ffff0f703e2 (lib.so+0x703e2)
 #4 0x00007ffff0f703e3 (lib.so+0x703e3)
"""


def crash_of(text: str, number: int = 11) -> Failure:
    run = Execution(
        ("iree-compile",),
        Ending.SIGNALLED,
        None,
        number,
        0.1,
        0.1,
        100.0,
        Captured(),
        Captured(text),
    )
    diagnosis = diagnose(run, packaged_rules())
    assert not diagnosis.needs_pass
    [failure] = diagnosis.failures
    return failure


@pytest.mark.parametrize(
    ("stack", "signature", "failing_pass"),
    [
        (IN_MLIR, "segfault:GPU::getMmaSchedule in SelectPass", "SelectPass"),
        (
            IN_LLVM,
            "segfault:HorizontalReduction::tryToReduce in SLPVectorizerPass",
            "SLPVectorizerPass",
        ),
        (OUTSIDE, "segfault:mlir::translate < compile", None),
        (STRIPPED, "segfault:SIGSEGV", None),  # its places are others in each release
    ],
)
def test_a_stack_identifies_a_crash(
    stack: str, signature: str, failing_pass: str | None
) -> None:
    failure = crash_of(HANDLER + stack)
    assert (failure.signature, failure.failing_pass) == (signature, failing_pass)
    assert failure.details["signal"] == "SIGSEGV"


RUNNING = """LLVM ERROR: Cannot select: 0x55 = bitcast 0x56
Stack dump:
0.\tProgram arguments: llc x.ll
1.\tRunning pass 'Function Pass Manager' on module 'x.ll'.
2.\tRunning pass 'Greedy Register Allocator' on function '@f'
"""


@pytest.mark.parametrize(
    ("text", "failing_pass"),
    [
        (RUNNING, "Greedy Register Allocator"),
        (
            RUNNING.replace("'Greedy Register Allocator'", '"loop-vectorize"'),
            "loop-vectorize",
        ),
    ],
)
def test_the_failing_pass_is_read_from_the_stack_dump(
    text: str, failing_pass: str | None
) -> None:
    assert crash_of(text, number=6).failing_pass == failing_pass


def test_a_crash_says_where_it_happened() -> None:
    frame = " #0 0x00007f0000000001 mlir::Foo::fold(mlir::Operation*) Foo.cpp:1:1\n"
    (failure,) = scan_output(f"{frame}Segmentation fault (core dumped)\n".encode())
    assert failure.headline == "crashed in Foo::fold: Segmentation fault (core dumped)"
