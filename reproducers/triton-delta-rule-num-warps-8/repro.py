"""Compile input.py ahead of time for sm_90 with Triton 3.2.0; no GPU is needed.

    uv run --no-project --python 3.11 --with triton==3.2.0 --with setuptools repro.py
"""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from input import delta_rule

source = ASTSource(
    fn=delta_rule,
    signature={"k_ptr": "*fp16", "state_ptr": "*fp32"},
)
triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
