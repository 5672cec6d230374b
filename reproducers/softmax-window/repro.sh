#!/bin/sh
# stack frame size (147460) exceeds limit (131056) in function 'softmax_dispatch_0_softmax_64x4x72x1xf32_dispatch_tensor_store'
# Fails with iree-compile 3.0.0, commit 29c451b00ecc9f9e5466e9d1079e0d69147da700:
#   pip install iree-base-compiler==3.0.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx908 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
