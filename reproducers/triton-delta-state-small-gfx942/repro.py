"""Compile input.py ahead of time for gfx908 with Triton 3.5.0; no GPU is needed.

    uv run --no-project --python 3.11 --with triton==3.5.0 repro.py
"""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from input import delta_state

source = ASTSource(
    fn=delta_state,
    signature={"k_ptr": "*fp32", "chunks": "i32"},
    attrs={(0,): [["tt.divisibility", 16]]},
)
triton.compile(source, target=GPUTarget("hip", "gfx908", 64), options={"num_stages": 4})
