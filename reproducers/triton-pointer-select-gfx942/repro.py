"""Compile input.py ahead of time for gfx908 with Triton 3.6.0; no GPU is needed.

    uv run --no-project --python 3.11 --with triton==3.6.0 repro.py
"""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from input import pointer_select

source = ASTSource(
    fn=pointer_select,
    signature={"old_ptr": "*fp32", "new_ptr": "*fp32", "split": "i32"},
    attrs={(0,): [["tt.pointer_range", 32]], (1,): [["tt.pointer_range", 32]]},
)
triton.compile(source, target=GPUTarget("hip", "gfx908", 64))
