import triton
import triton.language as tl


@triton.jit
def pointer_select(old_ptr, new_ptr, split):
    offsets = tl.arange(0, 2)
    source = tl.where(0 < split, old_ptr + offsets, new_ptr + offsets)
    tl.store(old_ptr + offsets, tl.load(source))
