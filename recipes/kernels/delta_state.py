"""The state of a gated delta rule carried over chunks: written out before each, decayed, corrected, and added to."""

import triton
import triton.language as tl


@triton.jit
def delta_state(
    k_ptr,
    v_ptr,
    w_ptr,
    g_ptr,
    h_ptr,
    u_ptr,
    chunks,
    T: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
):
    time = tl.arange(0, T)
    keys = tl.arange(0, K)
    values = tl.arange(0, V)
    state = tl.zeros((K, V), dtype=tl.float32)
    for chunk in range(0, chunks):
        tl.store(
            h_ptr + chunk * K * V + keys[:, None] * V + values[None, :],
            state.to(tl.bfloat16),
        )
        w = tl.load(w_ptr + chunk * T * K + time[:, None] * K + keys[None, :])
        v = tl.load(v_ptr + chunk * T * V + time[:, None] * V + values[None, :])
        residual = v - tl.dot(w, state.to(tl.bfloat16))
        tl.store(
            u_ptr + chunk * T * V + time[:, None] * V + values[None, :],
            residual.to(tl.bfloat16),
        )
        gate = tl.load(g_ptr + chunk * T + time)
        last = tl.load(g_ptr + chunk * T + T - 1)
        residual = residual * tl.exp(last - gate)[:, None]
        state = state * tl.exp(last)
        k = tl.load(k_ptr + chunk * T * K + keys[:, None] + time[None, :] * K)
        state += tl.dot(k, residual.to(tl.bfloat16))
    tl.store(
        h_ptr + chunks * K * V + keys[:, None] * V + values[None, :],
        state.to(tl.bfloat16),
    )
