#!/bin/sh
# 'func.func' op uses 229376 bytes of shared memory; exceeded the limit of 166912 bytes
# Fails with iree-compile 3.3.0, commit 9f4212cc3a64487c5bc7b003e5e197295a8fddf5:
#   pip install iree-base-compiler==3.3.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=cuda --iree-cuda-target=sm_80 --compile-to=executable-targets --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
