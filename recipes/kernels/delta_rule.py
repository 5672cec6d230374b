"""One step of a gated delta rule: a product, rounded to bf16, and its left factor's transpose times that."""

import triton
import triton.language as tl


@triton.jit
def delta_rule(
    k_ptr, v_ptr, state_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    rows = tl.arange(0, M)
    cols = tl.arange(0, N)
    inner = tl.arange(0, K)
    k = tl.load(k_ptr + rows[:, None] * K + inner[None, :])
    v = tl.load(v_ptr + inner[:, None] * N + cols[None, :])
    residual = tl.dot(k, v).to(tl.bfloat16)
    state = tl.dot(tl.trans(k), residual)
    tl.store(state_ptr + inner[:, None] * N + cols[None, :], state)
