"""A pointer that is one of two by a condition on the row: a cache's old part, or what came in since."""

import triton
import triton.language as tl


@triton.jit
def pointer_select(old_ptr, new_ptr, y_ptr, split, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    source = tl.where(row < split, old_ptr + offsets, new_ptr + offsets)
    tl.store(y_ptr + row * BLOCK + offsets, tl.load(source))
