"""Layer norm of each row, its mean and variance taken in two passes."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(
    x_ptr,
    scale_ptr,
    shift_ptr,
    y_ptr,
    row_stride,
    columns,
    epsilon,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(
            x_ptr + row * row_stride + offsets, mask=offsets < columns, other=0.0
        ).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(
            x_ptr + row * row_stride + offsets, mask=offsets < columns, other=0.0
        ).to(tl.float32)
        centred = tl.where(offsets < columns, x - mean, 0.0)
        squares += centred * centred
    inverse = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < columns
        x = tl.load(x_ptr + row * row_stride + offsets, mask=inside, other=0.0).to(
            tl.float32
        )
        scale = tl.load(scale_ptr + offsets, mask=inside, other=0.0)
        shift = tl.load(shift_ptr + offsets, mask=inside, other=0.0)
        tl.store(
            y_ptr + row * row_stride + offsets,
            (x - mean) * inverse * scale + shift,
            mask=inside,
        )
