"""Which parts of a message and of a stack a signature depends on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.classify.samples import scan_output

MESSAGES = (
    "{path}:{line}:{col}: error: 'linalg.generic' op inferred input/output operand #{n} has shape's dimension #{m} to be {a}, but found {b}\n",
    "{path}:{line}:{col}: error: the value {ssa} of type tensor<{a}x{b}xf16> is {a} too purple in @main$async_dispatch_{n}_matmul_{a}x{b}\n",
    "{path}:{line}:{col}: error: 'scf.for' op along control flow edge {ssa} to {ssa}#{n} at 0x{a:x} see {path}:{line}:{col}\n",
    "{path}:{line}:{col}: error: function 'main$async_dispatch_{n}_conv_{a}x{b}' uses {a} bytes of shared memory; exceeded the limit of {b} bytes\n",
    "{path}:{line}:{col}: error: failed to legalize operation 'arith.bitcast' that was explicitly marked illegal: {ssa} = \"arith.bitcast\"({ssa}) : (f{n}) -> i{n}\n",
    "iree-compile: {path}/Foo.cpp:{line}: void f(): Assertion `x < y' failed.\n",
    "LLVM ERROR: Cannot select: 0x{a:x}: v{n}f16 = bitcast {ssa}\n",
)
PATHS = st.from_regex(
    r"(/[a-z]{1,8}){1,4}/[a-z]{1,8}\.mlir|[a-z]{1,8}\.mlir", fullmatch=True
)
NAMES = st.from_regex(
    r"%([0-9]{1,4}|arg[0-9]{1,2}|[a-z_]{1,8}(_[0-9]{1,2})?)", fullmatch=True
)
NUMBERS = st.integers(1, 10**9)


def signatures_in(text: str) -> list[str]:
    return [failure.signature for failure in scan_output(text.encode())]


@pytest.mark.parametrize("message", MESSAGES)
@settings(max_examples=30)
@given(
    paths=st.tuples(PATHS, PATHS),
    names=st.tuples(NAMES, NAMES),
    first=st.tuples(*[NUMBERS] * 4),
    second=st.tuples(*[NUMBERS] * 4),
)
def test_names_numbers_and_paths_do_not_change_the_signature(
    message, paths, names, first, second
) -> None:
    def text(path, ssa, numbers):
        line, col, a, b = numbers
        return message.format(
            path=path, ssa=ssa, line=line, col=col, a=a, b=b, n=16, m=2
        )

    assert (
        signatures_in(text(paths[0], names[0], first))
        == signatures_in(text(paths[1], names[1], second))
        != []
    )


CHAIN = (
    "RuntimeError: Exception from src/core.cpp:{}:\nException from src/{}.cpp:53:\n{}\n"
)
CRASH = """\
Stack dump:
 #0 0x00007f0000000001 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (clang+0x1)
 #1 0x00007f0000000002 {}(llvm::Function&) (clang+0x2)
 #2 0x00007f0000000003 clang::CodeGenAction::ExecuteAction() (clang+0x3)
 #3 0x00007f0000000004 clang_main(int, char**) (clang+0x4)
"""


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("XlaRuntimeError: INTERNAL: no x", "XlaRuntimeError: Internal: no x", True),
        ("error: INTERNAL: no x", "error: Internal: no x", True),
        ("a/b.c:1: NOT_FOUND; no x", "/w/a/b.c:27: NOT_FOUND; no x", True),
        ("error: no code for sm_80", "error: no code for sm_121a", True),
        ("LLVM ERROR: odd on gfx90a", "LLVM ERROR: odd on gfx1100", True),
        (CHAIN.format(9, "a", "bad x"), CHAIN.format(7, "b", "bad x"), True),
        (CHAIN.format(9, "a", "bad x"), CHAIN.format(9, "a", "bad y"), False),
        (CRASH.format("llvm::A::run"), CRASH.format("llvm::B::run"), False),
        (CRASH.format("clang::FrontendAction::Execute"), "Segmentation fault", True),
        ("FAILED: lib/a.o", "FAILED: lib/b.o", False),
        ("make: *** [Makefile:9: a] Error 1", "make: *** [b] Error 1", False),
        ("error: 'a.b' op is purple", "error: 'a.c' op is purple", False),
        ("error: 'a.b' op is purple", "error: 'a.b' op is green", False),
        ("error: ld: value f16 is odd", "error: ld: value f32 is odd", False),
        (
            "x: F.cpp:3: f(): Assertion `a' failed.",
            "x: F.cpp:3: f(): Assertion `b' failed.",
            False,
        ),
    ],
)
def test_one_bug_has_one_signature_and_two_have_two(
    first: str, second: str, same: bool
) -> None:
    assert signatures_in(first)
    both = [signature.removesuffix(":SIGSEGV") for signature in signatures_in(first)]
    others = [signature.removesuffix(":SIGSEGV") for signature in signatures_in(second)]
    assert (both == others) is same, (both, others)


NAMES_OF_A_MACHINE = {
    "path": st.from_regex(
        r"(/[a-z_]{2,8}){2,4}(/lib[a-z]{2,6}\.so)?|C:\\(Users|Program Files \(x86\))\\[a-z]{3,9}\\[a-z]{2,5}\.lib"
        r"|(build|out)/temp\.linux-x86_64/[a-z]{2,8}\.o|~/\.[a-z]{3,8}/[a-z]{3,8}",
        fullmatch=True,
    ),
    "version": st.from_regex(
        r"v?[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}(rc[0-9]{8}|\.dev[0-9]{1,4}|\+cu[0-9]{3})?",
        fullmatch=True,
    ),
    "hash": st.from_regex(r"[0-9a-f]{12}|[0-9a-f]{40}", fullmatch=True).filter(
        lambda text: not text.isalpha()
    ),
    "address": st.from_regex(r"0x[0-9a-f]{4,12}|[1-9][0-9]{6,12}", fullmatch=True),
    "time": st.from_regex(
        r"20[0-9]{2}-0[1-9]-1[0-9]T1[0-9]:[0-5][0-9]:[0-5][0-9]Z", fullmatch=True
    ),
    "seconds": st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}s", fullmatch=True),
    "file": st.from_regex(r"tmp[a-z0-9_]{8}", fullmatch=True),
}


@pytest.mark.parametrize(
    "message",
    [
        "tool: error: the frobnicator {version} of {path} is purple",
        "tool: error: {path} was frobnicated by {hash} at {address} after {seconds}",
        "error: purple {file} in {path}, see {path}",
        "[ERROR] frobnicate {address}: -I{path} --prefix={path} {version} {time} '{path}'",
    ],
)
@settings(max_examples=30)
@given(data=st.data())
def test_a_message_that_no_rule_knows_names_nothing_of_the_machine_in_its_signature(
    message: str, data: st.DataObject
) -> None:
    first, second = (
        signatures_in(
            message.format(
                **{key: data.draw(values) for key, values in NAMES_OF_A_MACHINE.items()}
            )
        )
        for _ in "ab"
    )
    assert first == second
    assert first[0].startswith("unknown:")
    assert not any(character.isdigit() for character in first[0])
