"""One failure has one signature: with and without notes, in custom and generic form, from a release and a debug build."""

# ruff: noqa: E501 - compilers print long lines

import re

import pytest

from tests.classify.corpus import snippets
from tests.classify.samples import scan_output
from tests.classify.test_diagnose import diagnosed, ran
from triage.classify import NO_PASS, FailingPass, packaged_rules

# What `--mlir-print-op-on-diagnostic=false` leaves out: the note, and the operation that it prints in further lines.
NOTE = re.compile(
    r"^.*\bnote: (?:\S+: )?see current operation:[^\n]*\n(?:(?:\s*\n)?(?:%\S+ = )?\"[\w.]+\"\([^\n]*\n)?", re.MULTILINE
)

LOGS = [
    *(
        pytest.param(example.text, id=f"{rule.name}-{i}")
        for rule in packaged_rules()
        for i, example in enumerate(rule.examples)
    ),
    *(pytest.param(snippet.log, id=snippet.thread) for snippet in snippets()),
]


def signatures(text: str) -> list[str]:
    return [failure.signature for failure in scan_output(text.encode())]


@pytest.mark.parametrize("text", LOGS)
def test_notes_do_not_change_the_signature(text: str) -> None:
    assert signatures(NOTE.sub("", text)) == signatures(text)


GATHER = """\
m.mlir:3:10: error: failed to legalize operation 'torch.operator' that was explicitly marked illegal
    %0 = {}
         ^
"""


@pytest.mark.parametrize(
    "printed",
    [
        'torch.operator "onnx.Gather"(%a, %b) : (!torch.vtensor<[4],f32>, !torch.vtensor<[?],si64>) -> !torch.vtensor<[?],f32>',
        'torch.operator "onnx.Gather"(%a, %b) {torch.onnx.axis = 0 : si64, name = "x"} : (!torch.vtensor<[4],f32>) -> !torch.none',
        '"torch.operator"(%a, %b) <{name = "onnx.Gather"}> : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[?],f32>',
        '"torch.operator"(%a, %b) <{name = "onnx.Gather"}> {torch.onnx.axis = 0 : si64} : (!torch.vtensor<[4],f32>) -> !torch.none',
        '"torch.operator"(%a, %b) {name = "onnx.Gather", torch.onnx.axis = 0 : si64} : (!torch.vtensor<[4],f32>) -> !torch.none',
    ],
)
def test_the_form_of_the_source_line_does_not_change_the_signature(printed: str) -> None:
    assert signatures(GATHER.format(printed)) == ["legalization:torch.operator onnx.Gather"]


def test_the_operator_of_another_operation_is_not_read_from_its_source_line() -> None:
    text = GATHER.format('torch.operator "onnx.Conv"(%a) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>')
    assert signatures(text.replace("'torch.operator'", "'torch.aten.convolution'")) == ["legalization:torch.aten.convolution"]


@pytest.mark.parametrize(
    "source",
    [
        "%1 = math.exp %2 : tensor<8xf32>",
        '%1 = "math.exp"(%2) : (tensor<8xf32>) -> tensor<8xf32>',
        "%x:2 = math.exp %y#1 : f32",
    ],
)
def test_a_dominance_error_is_identified_by_the_operation_of_the_source(source: str) -> None:
    text = f"m.mlir:2:8: error: operand #0 does not dominate this use\n  {source}\n       ^\n"
    note = 'm.mlir:2:8: note: see current operation: \n%4 = "tensor.extract"(%3) : (tensor<i32>) -> i32\n'
    assert signatures(text) == signatures(text + note) == ["dominance:math.exp"]


def test_the_source_operation_and_the_kind_of_dispatch_are_details() -> None:
    text = (
        "m.mlir:9:10: error: function 'main$async_dispatch_3_matmul_like_4x8x16_f32' uses 99999 bytes of shared memory; "
        "exceeded the limit of 65536 bytes\n"
    )
    [failure] = scan_output(text.encode())
    assert failure.details["dispatch"] == "matmul_like"
    text = "m.mlir:9:10: error: 'func.func' op exceeded stack allocation limit of 32768 bytes for function. Got 65536 bytes\n"
    [failure] = scan_output(f"{text}    %4 = tensor.gather %a[%b] : (tensor<8xf32>) -> tensor<4xf32>\n         ^\n".encode())
    assert failure.details["source_op"] == "tensor.gather"
    assert failure.signature == "stack-limit:tensor.gather"


READ = """\
t.mlir:2:8: error: 'tosa.mul' op expected 3 operands, but found 2
  %0 = "tosa.mul"(%a, %b) {shift = 0 : i8} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
       ^
"""
SEMANTIC = READ.replace("expected 3 operands, but found 2", "requires the same type for all operands and results")
TRANSLATION = 't.mlir:2:8: error: failed to run translation of source executable to target executable for backend #hal.executable.target<"cuda">\n'


@pytest.mark.parametrize(
    "stderr, failing_pass, expected, asks",
    [
        (READ, None, "parse-error:tosa.mul expected # operands, but found #", False),
        (READ.replace('"tosa.mul"(', '"tosa.add"('), None, "verifier:tosa.mul expected # operands, but found #", False),
        (READ + TRANSLATION, None, "verifier:tosa.mul expected # operands, but found #", False),
        (SEMANTIC, None, "verifier:tosa.mul requires the same type for all operands and results", True),
        (SEMANTIC, NO_PASS, "parse-error:tosa.mul requires the same type for all operands and results", False),
        (
            SEMANTIC,
            FailingPass("Canonicalizer"),
            "verifier:tosa.mul requires the same type for all operands and results",
            False,
        ),
        (SEMANTIC + TRANSLATION, None, "verifier:tosa.mul requires the same type for all operands and results", False),
    ],
)
def test_an_operation_that_is_invalid_as_written_is_an_input_that_cannot_be_read(
    stderr: str, failing_pass: FailingPass | None, expected: str, asks: bool
) -> None:
    diagnosis = diagnosed(ran(stderr), failing_pass)
    assert (diagnosis.failures[0].signature, diagnosis.needs_pass) == (expected, asks)


RELEASE = """\
iree-compile: /b/llvm/include/llvm/Support/Casting.h:566: decltype(auto) llvm::cast(const From &) [To = mlir::IntegerType, From = mlir::Type]: Assertion `isa<To>(Val) && "cast<Ty>() argument of incompatible type!"' failed.
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Aborted (core dumped)
"""
DEBUG = """\
[dialect-conversion] Trying to match pattern `mlir::OpConversionPattern`
iree-compile: /home/u/src/llvm-project/llvm/include/llvm/Support/Casting.h:572: decltype(auto) llvm::cast(const From&) [with To = mlir::IntegerType; From = mlir::Type]: Assertion `isa<To>(Val) && "cast<Ty>() argument of incompatible type!"' failed.
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.	Program arguments: /home/u/build/tools/iree-compile m.mlir
 #0 0x00007f1070000828 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) /s/llvm/lib/Support/Unix/Signals.inc:842:13
 #1 0x00007f10700002e4 SignalHandler(int, siginfo_t*, void*) /s/llvm/lib/Support/Unix/Signals.inc:429:38
 #2 0x00007f1000000520 (/lib/x86_64-linux-gnu/libc.so.6+0x42520)
 #3 0x00007f10000009fc pthread_kill (/lib/x86_64-linux-gnu/libc.so.6+0x969fc)
 #4 0x00007f1000000f26 __assert_fail (/lib/x86_64-linux-gnu/libc.so.6+0x39e96)
 #5 0x00007f1070001aaa decltype(auto) llvm::cast<mlir::IntegerType, mlir::Type>(mlir::Type const&) /s/llvm/include/llvm/Support/Casting.h:566:3
 #6 0x00007f1070001bbb mlir::iree_compiler::(anonymous namespace)::ConvertPass::runOnOperation() /s/iree/Convert.cpp:80:9
Aborted (core dumped)
"""
CODEGEN = """\
m.mlir:7:3: error: 'func.func' op failed to distribute
  %2 = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
       ^
"""
DEBUG_CODEGEN = f"""\
[iree-codegen-vector-distribute]: trying layout #iree_vector_ext.nested_layout
--- error while matching: layout conflict
{CODEGEN}m.mlir:7:3: note: diagnostic emitted with trace:
 #0 0x00007f1070000828 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) /s/llvm/lib/Support/Unix/Signals.inc:842:13
 #1 0x00007f1070001ccc emitDiag(mlir::Location, mlir::DiagnosticSeverity, llvm::Twine const&) /s/mlir/lib/IR/Diagnostics.cpp:330:18
 #2 0x00007f1070001ddd mlir::iree_compiler::(anonymous namespace)::VectorDistributePass::runOnOperation() /s/iree/Vector.cpp:80:9
"""


@pytest.mark.parametrize("release, debug", [(RELEASE, DEBUG), (CODEGEN, DEBUG_CODEGEN)], ids=["assertion", "error"])
def test_a_debug_build_has_the_signature_of_the_release(release: str, debug: str) -> None:
    assert signatures(debug)[:1] == signatures(release) != []


def test_a_caller_behind_a_frame_without_a_name_is_not_the_caller() -> None:
    stack = """\
a.out: /s/llvm/include/llvm/ADT/ArrayRef.h:44: const T &llvm::ArrayRef<T>::operator[](size_t) const: Assertion `Index < Length' failed.
 #0 0x00007f1070000828 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/b/lib/libC.so+0x1)
 #1 0x00007f10700002e4 (/b/lib/libC.so+0x2)
 #2 0x00007f1000000859 abort (/lib/x86_64-linux-gnu/libc.so.6+0x287f3)
 #3 0x00007f10700003e4 {}(/b/lib/libC.so+0x3)
 #4 0x00007f10700004e4 mlir::far::away(int) (/b/lib/libC.so+0x4)
"""
    assert signatures(stack.format("mlir::near::by(int) ")) == ["assertion:Index < Length near::by"]
    assert signatures(stack.format("")) == ["assertion:Index < Length ArrayRef::operator[]"]
