"""Which parts of a message and of a stack a signature depends on."""

# ruff: noqa: E501 - compilers print long lines

import pytest
from hypothesis import given
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
PATHS = st.from_regex(r"(/[a-z]{1,8}){1,4}/[a-z]{1,8}\.mlir|[a-z]{1,8}\.mlir", fullmatch=True)
NAMES = st.from_regex(r"%([0-9]{1,4}|arg[0-9]{1,2}|[a-z_]{1,8}(_[0-9]{1,2})?)", fullmatch=True)
NUMBERS = st.integers(1, 10**9)


def signatures_in(text: str) -> list[str]:
    return [failure.signature for failure in scan_output(text.encode())]


@pytest.mark.parametrize("message", MESSAGES)
@given(
    paths=st.tuples(PATHS, PATHS),
    names=st.tuples(NAMES, NAMES),
    first=st.tuples(*[NUMBERS] * 4),
    second=st.tuples(*[NUMBERS] * 4),
)
def test_names_numbers_and_paths_do_not_change_the_signature(message, paths, names, first, second) -> None:
    def text(path, ssa, numbers):
        line, col, a, b = numbers
        return message.format(path=path, ssa=ssa, line=line, col=col, a=a, b=b, n=16, m=2)

    assert signatures_in(text(paths[0], names[0], first)) == signatures_in(text(paths[1], names[1], second)) != []


@pytest.mark.parametrize(
    "first, second",
    [
        ("error: failed to legalize operation 'arith.bitcast'", "error: failed to legalize operation 'arith.extf'"),
        ("error: 'a.b' op is too purple", "error: 'a.c' op is too purple"),
        ("error: 'a.b' op is too purple", "error: 'a.b' op is too green"),
        ("error: ld: value f16 is odd", "error: ld: value f32 is odd"),
        (
            "error: 'a.b' op references a promised device that was not declared: #hal.device.promise<@__device_7>",
            "error: 'a.b' op references a promised device that was not declared: #hal.device.promise<@__device_6>",
        ),
        ("iree-compile: F.cpp:3: f(): Assertion `a' failed.", "iree-compile: F.cpp:3: f(): Assertion `b' failed."),
        ("LLVM ERROR: one thing", "LLVM ERROR: another"),
    ],
)
def test_different_failures_have_different_signatures(first: str, second: str) -> None:
    assert signatures_in(first) != signatures_in(second)


@pytest.mark.parametrize(
    ("line", "headline"),
    [
        (
            "F1123 03:39:09 24959 xla_builder.h:187] Check failed: x == 3 (2 vs. 3) bad",
            "xla_builder.h:187] Check failed: x == 3 (2 vs. 3) bad",
        ),
        (
            "ptxas /tmp/tmpabc12.ptx, line 12; error : Feature foo requires bar",
            "ptxas line 12; error : Feature foo requires bar",
        ),
    ],
)
def test_a_headline_has_no_time_process_or_temporary_file(line: str, headline: str) -> None:
    assert [failure.headline for failure in scan_output(line.encode())] == [headline]
