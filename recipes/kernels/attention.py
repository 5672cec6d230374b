"""The forward pass of attention, keys and values in blocks, the softmax kept up to date as they come."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    length,
    head_stride,
    row_stride,
    scale,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    D: tl.constexpr,
):
    head = tl.program_id(1) * head_stride
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    q = tl.load(
        q_ptr + head + rows[:, None] * row_stride + dims[None, :],
        mask=rows[:, None] < length,
        other=0.0,
    )
    highest = tl.full((ROWS,), -1.0e30, dtype=tl.float32)
    weight = tl.zeros((ROWS,), dtype=tl.float32)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    for start in range(0, length, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = tl.load(
            k_ptr + head + keys[None, :] * row_stride + dims[:, None],
            mask=keys[None, :] < length,
            other=0.0,
        )
        scores = tl.dot(q, k) * scale
        scores = tl.where(keys[None, :] < length, scores, -1.0e30)
        now = tl.maximum(highest, tl.max(scores, axis=1))
        shares = tl.exp(scores - now[:, None])
        decay = tl.exp(highest - now)
        weight = weight * decay + tl.sum(shares, axis=1)
        acc = acc * decay[:, None]
        v = tl.load(
            v_ptr + head + keys[:, None] * row_stride + dims[None, :],
            mask=keys[:, None] < length,
            other=0.0,
        )
        acc += tl.dot(shares.to(tl.float16), v)
        highest = now
    out = acc / weight[:, None]
    tl.store(
        o_ptr + head + rows[:, None] * row_stride + dims[None, :],
        out.to(tl.float16),
        mask=rows[:, None] < length,
    )
