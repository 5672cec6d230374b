"""Messages that stand above or below the line that reveals the failure are found,
however the stream is cut.
"""

import pytest

from tests.classify.samples import scan_output

IR = "    %1 = arith.addi %0, %0 : index\n"
ABOVE = "unhandled address space\nUNREACHABLE executed at /b/llvm/Cost.cpp:61!\n"
EXCERPT = """\
Traceback (most recent call last):
  File "/w/compiler.py", line 81, in make_ir
    return ast_to_ttir(self.fn, self)
triton.compiler.errors.CompilationError: at 34:46:
def kernel(x_ptr, E: tl.constexpr):
{source}    offs = tl.arange(0, E)
                   ^
ValueError("arange's range must be a power of 2")
"""


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("indentation", [0, 4100, 1 << 16])
def test_a_message_above_is_found_however_the_stream_is_cut(
    size: int, indentation: int
) -> None:
    log = (IR * (indentation // len(IR)) + ABOVE).encode()
    (failure,) = scan_output(
        *(log[start : start + size] for start in range(0, len(log), size))
    )
    assert failure.signature == "assertion:Cost.cpp unhandled address space"
    assert "unhandled address space" in failure.headline


@pytest.mark.parametrize("lines", [0, 50])
def test_the_reason_below_a_kernels_source_identifies_the_failure(lines: int) -> None:
    (failure,) = scan_output(
        EXCERPT.format(source="    x = tl.load(x_ptr)\n" * lines).encode()
    )
    assert (
        failure.signature
        == 'kernel-language:CompilationError ValueError("arange\'s range must be a power of #")'
    )
    assert failure.headline.endswith(
        'at 34:46: ValueError("arange\'s range must be a power of 2")'
    )


@pytest.mark.parametrize(
    "below",
    [
        "",
        "Mismatched elements: 128 / 128 (100%)\n",
        "=== short test summary info ===\n",
    ],
)
def test_a_reason_ends_where_a_line_does_not_continue_it(below: str) -> None:
    raised = (
        "Traceback (most recent call last):\n"
        '  File "/w/dispatcher.py", line 3, in compile\n'
        "    raise e\n"
        "numba.core.errors.LoweringError: Failed in nopython mode pipeline (step: "
        "native lowering)\nCannot lower constant of type 'slice'\n"
    )
    (failure,) = scan_output((raised + below).encode())
    assert failure.headline.endswith("lowering) Cannot lower constant of type 'slice'")
