"""Softmax of each row, one program a row."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(
        x_ptr + row * row_stride + offsets, mask=inside, other=-float("inf")
    ).to(tl.float32)
    shifted = tl.exp(x - tl.max(x, axis=0))
    y = shifted / tl.sum(shifted, axis=0)
    tl.store(y_ptr + row * row_stride + offsets, y, mask=inside)
