"""A tiled matrix product with a loop over K that the compiler pipelines."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_stride,
    b_stride,
    c_stride,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_tile = a_ptr + (rows % m)[:, None] * a_stride + inner[None, :]
    b_tile = b_ptr + inner[:, None] * b_stride + (cols % n)[None, :]
    acc = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, k, K):
        a = tl.load(a_tile, mask=inner[None, :] < k - step, other=0.0)
        b = tl.load(b_tile, mask=inner[:, None] < k - step, other=0.0)
        acc += tl.dot(a, b)
        a_tile += K
        b_tile += K * b_stride
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(
        c_ptr + rows[:, None] * c_stride + cols[None, :],
        acc.to(tl.float16),
        mask=inside,
    )
