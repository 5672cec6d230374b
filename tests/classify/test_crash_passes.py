"""A crash whose stack has no symbols is identified by the pass it happened in."""

from __future__ import annotations

from triage.classify import FailingPass, PassScanner, diagnose, packaged_rules
from triage.model.execution import Captured, Ending, Execution

NAMELESS = """Please report issues to the tracker and include the crash backtrace.
Stack dump:
0.\tProgram arguments: iree-compile m.mlir
0  libIREECompiler.so 0x00007fffeedb49a8 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) + 40
1  libIREECompiler.so 0x00007fffeedb231e llvm::sys::RunSignalHandlers() + 238
2  libc.so.6          0x00007fffe885a050
3  libIREECompiler.so 0x00007ffff0f703e2
4  libIREECompiler.so 0x00007fffef124bdb mlir::detail::OpToOpPassAdaptor::run(mlir::Pass*, mlir::Operation*) + 635
"""
NAMED = NAMELESS.replace("0x00007ffff0f703e2", "0x00007ffff0f703e2 mlir::Type::getIntOrFloatBitWidth() const + 44")
SELECT = FailingPass("LLVMGPUSelectLoweringStrategyPass")


def crashed_run(text: str) -> Execution:
    return Execution(("iree-compile",), Ending.SIGNALLED, None, 11, 0.1, 0.1, 100.0, Captured(), Captured(text))


def test_a_crash_without_symbols_needs_the_pass() -> None:
    diagnosis = diagnose(crashed_run(NAMELESS), packaged_rules())
    assert diagnosis.needs_pass
    assert diagnosis.failures[0].signature == "segfault:SIGSEGV"


def test_the_pass_identifies_the_crash() -> None:
    [failure] = diagnose(crashed_run(NAMELESS), packaged_rules(), SELECT).failures
    assert failure.signature == "segfault:SIGSEGV in LLVMGPUSelectLoweringStrategyPass"
    assert (failure.failing_pass, failure.phase) == (SELECT.name, "executable-targets")


def test_symbols_identify_the_crash_when_no_pass_is_known() -> None:
    diagnosis = diagnose(crashed_run(NAMED), packaged_rules())
    assert diagnosis.needs_pass
    assert "getIntOrFloatBitWidth" in diagnosis.failures[0].signature
    [failure] = diagnose(crashed_run(NAMED), packaged_rules(), SELECT).failures
    assert failure.signature == "segfault:SIGSEGV in LLVMGPUSelectLoweringStrategyPass"
    assert "getIntOrFloatBitWidth" in str(failure.details["frames"])


def test_a_crash_without_output_needs_the_pass() -> None:
    assert diagnose(crashed_run(""), packaged_rules()).needs_pass


def test_both_formats_of_a_failing_pass_are_read_from_a_long_dump() -> None:
    for line in (
        "// -----// IR Dump After CloneToConsumersPass Failed (iree-stream-clone-to-consumers) //----- //",
        "// -----// IR Dump After CloneToConsumersPass Failed: iree-stream-clone-to-consumers //----- //",
    ):
        scanner = PassScanner()
        for piece in (b"module {" * 5000, b"\n", line.encode(), b"\n", b"%0 = x\n" * 5000):
            scanner.feed(piece)
        assert scanner.finish() == FailingPass("CloneToConsumersPass", "iree-stream-clone-to-consumers")
