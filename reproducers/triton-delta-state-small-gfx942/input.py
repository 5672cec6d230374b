import triton
import triton.language as tl


@triton.jit
def delta_state(k_ptr, chunks):
    time = tl.arange(0, 32)
    state = tl.zeros((32, 32), dtype=tl.float32)
    for chunk in range(0, chunks):
        w = tl.load(k_ptr + time[:, None] + time[None, :])
        residual = w - tl.dot(w, state)
        tl.store(k_ptr + time[:, None] + time[None, :], residual)
        state = tl.dot(w, residual)
