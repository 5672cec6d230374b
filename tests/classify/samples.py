"""Output of real compilers, with long lines cut, and helpers for the tests of this
folder. Tables of outputs and what they show are in `tests/data/classify`.
"""

from pathlib import Path
from typing import Any

from triage.classify import RuleSet, packaged_rules
from triage.classify.findings import failures_of
from triage.classify.reader import read_log
from triage.classify.rules import read_yaml
from triage.model.outcome import Failure

TABLES = Path(__file__).parents[1] / "data" / "classify"

SHARED_3_3 = "m.mlir:6:8: error: 'func.func' op uses 229376 bytes of shared memory; exceeded the limit of 166912 bytes\n"
LEGALIZE = "m.mlir:3:7: error: failed to legalize operation 'arith.bitcast' that was explicitly marked illegal\n"
VERIFIER = "m.mlir:9:10: error: 'linalg.generic' op inferred input/output operand #1 has shape's dimension #2 to be 57, but found 56\n"
IR = "    %1 = arith.addi %0, %0 : index\n"
ABOVE = "unhandled address space\nUNREACHABLE executed at /b/llvm/Cost.cpp:61!\n"
DUMP = "// -----// IR Dump After {} Failed ({}) //----- //\n"

STACK = """\
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.	Program arguments: /tools/iree-compile ok.mlir -o /dev/null
 #0 0x00007ffff02b1158 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/lib/libIREECompiler.so+0x54b1158)
 #1 0x00007ffff02aeefe llvm::sys::RunSignalHandlers() (/lib/libIREECompiler.so+0x54aeefe)
 #2 0x00007ffff02b180d SignalHandler(int) Signals.cpp:0:0
 #3 0x00007fffeac5a050 (/lib/x86_64-linux-gnu/libc.so.6+0x3c050)
 #4 0x00007ffff19aeefb mlir::iree_compiler::IREE::GPU::getMmaSchedule(llvm::SmallVector<long, 6u>) ConfigUtils.cpp:0:0
 #5 0x00007ffff19afb83 mlir::iree_compiler::IREE::GPU::setMatmulLoweringConfig(mlir::Operation*) ConfigUtils.cpp:0:0
 #6 0x00007ffff174dc86 mlir::iree_compiler::(anonymous namespace)::LLVMGPUSelectLoweringStrategyPass::runOnOperation() X.cpp:0:0
 #7 0x00007fffefcb4edb mlir::detail::OpToOpPassAdaptor::run(mlir::Pass*, mlir::Operation*) (/lib/libIREECompiler.so+0x5ab4edb)
"""

COLUMNS = """\
Stack dump without symbol names (ensure you have llvm-symbolizer in your PATH or set the environment var):
0  libIREECompiler.so 0x00007ff88ed9979f llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) + 63
1  libIREECompiler.so 0x00007ff88ed97989
2  libc.so.6          0x00007ff887442520
3  libIREECompiler.so 0x00007ff8944859b2 mlir::dataflow::SparseForward::visitRegionSuccessors(mlir::ProgramPoint*) + 1650
"""

ASSERTION = """\
iree-compile: /home/u/iree/third_party/llvm-project/llvm/include/llvm/Support/Casting.h:662: decltype(auto) llvm::dyn_cast(From &) [To = X, From = Y]: Assertion `detail::isPresent(Val) && "dyn_cast on a non-existent value"' failed.
"""

PYTEST_LOG = """\
##[group]Run actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683
with:
  submodules: true
##[endgroup]
##[group]Run pytest -n 4 tests | grep "error: failed to legalize operation 'x.y'"
\x1b[36;1mpytest -n 4 || echo "error: no good"\x1b[0m
shell: /usr/bin/bash -e {0}
##[endgroup]
============================= test session starts ==============================
tests/test_error.py::test_error_handling PASSED                          [ 33%]
tests/test_models.py::test_llama FAILED                                  [ 66%]
=================================== FAILURES ===================================
_________________________________ test_llama ___________________________________
>           raise IreeCompileException(proc, cwd)
E           sharktank.utils.export_artifacts.IreeCompileException: Error invoking iree-compile
E           Error code: 1
E           Stderr diagnostics:
E           /tmp/tmp2rl6kqyu/model.mlir:5492:12: error: function 'decode_bs4$async_dispatch_26_matmul_like_4x1536x32_f32' uses 74896 bytes of shared memory; exceeded the limit of 65536 bytes
E               %459 = torch.aten.mean.dim %457, %458, %true_495, %none_496 : !torch.vtensor<[4,1,1536],f32>
E                      ^
E           /tmp/tmp2rl6kqyu/model.mlir:5492:12: error: failed to run translation of source executable to target executable for backend #hal.executable.target<"rocm"
sharktank/utils/export_artifacts.py:77: IreeCompileException
FAILED tests/test_models.py::test_llama - sharktank.utils.export_artifacts.IreeCompileException: Error invoking iree-compile
======================== 1 failed, 2 passed in 33.20s =========================
##[error]Process completed with exit code 1.
"""

NINJA_LOG = f"""\
[643/1524] Generating /home/u/iree/build/e2e_matmul.vmfb from e2e_matmul.mlir
FAILED: tests/e2e/matmul/e2e_matmul.vmfb /home/u/iree/build/e2e_matmul.vmfb
cd /home/u/iree/build && /home/u/iree/build/tools/iree-compile --mlir-print-op-on-diagnostic=false e2e_matmul.mlir
{ASSERTION}{STACK}Aborted (core dumped)
[644/1524] Generating foo.vmfb
FAILED: tests/foo.vmfb
/w/foo.mlir:3:4: error: failed to legalize operation 'arith.bitcast' that was explicitly marked illegal
ninja: build stopped: subcommand failed.
##[error]Process completed with exit code 1.
"""

QUIET_LOG = """\
##[group]Run cmake --build build -- -k 0
\x1b[36;1mcmake --build build -- -k 0 # error: never\x1b[0m
##[endgroup]
-- The C compiler identification is Clang 18.1.3
-- Performing Test HAVE_WERROR - Failed
-- Performing Test HAVE_FLAG_-Werror=foo
-- Could NOT find Foo (missing: FOO_DIR)
[1/1234] Building CXX object lib/CMakeFiles/error.dir/Error.cpp.o
[2/1234] Building CXX object lib/error_handling/failed_to_compile.cc.o
/w/foo.cpp:12:3: warning: unused variable 'error' [-Wunused-variable]
clang++ -Werror -Wall -Wno-error=deprecated -c foo.cpp
      Start  1: iree/compiler/error_test
 1/20 Test  #1: iree/compiler/error_test ....................   Passed    0.02 sec
 2/20 Test  #2: iree/compiler/assertion_failed_test .........   Passed    0.02 sec
[ RUN      ] StatusTest.ErrorCode
[       OK ] StatusTest.ErrorCode (0 ms)
PASS: IREE :: Dialect/Stream/error: handling.mlir (3 of 10)
tests/test_iree.py::test_error[failed to legalize operation] PASSED
100% tests passed, 0 tests failed out of 20
// expected-error @+1 {{failed to legalize operation 'arith.bitcast'}}
errors: 0
error: 0
0 errors, 3 warnings generated.
Compilation finished with 0 error(s) and 0 failure(s)
3 passed, 0 failed, 0 errors in 3.2s
model.mlir:3:4: remark: failed to solve for affinity analysis
model.mlir:3:4: warning: 'linalg.generic' op is slow
WARNING: ConvertTypesPass (--iree-input-demote-*-to-*) changed public function signatures
Post job cleanup.
ERROR: 0
Total errors: 0
INFO error rate: 0.1
ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.
##[warning]Node.js 16 actions are deprecated. error: see the notes
HEAD is now at 1a2b3c4 Fix error: failed to solve for affinity analysis (#12345)
pytest --timeout=600
"""


def read_table(name: str) -> Any:
    return read_yaml(TABLES / f"{name}.yaml")


def stamped(text: str) -> bytes:
    """Return the text as GitHub Actions stores it: a byte order mark, a timestamp
    before each line, CRLF.
    """
    lines = text.rstrip("\n").split("\n")
    stamped = (
        f"2025-06-04T12:34:{number % 60:02d}.1234567Z {line}\r\n"
        for number, line in enumerate(lines)
    )
    return ("\ufeff" + "".join(stamped)).encode()


def scan_output(*pieces: bytes, rules: RuleSet | None = None) -> tuple[Failure, ...]:
    """Scan an output that arrives in pieces. rules: the packaged ones by default."""
    return failures_of(read_log(pieces, rules or packaged_rules()).findings.causes())
