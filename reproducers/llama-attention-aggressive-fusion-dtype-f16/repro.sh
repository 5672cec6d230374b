#!/bin/sh
# 'func.func' op uses 262144 bytes of shared memory; exceeded the limit of 65536 bytes
# Fails with iree-compile 3.3.0, commit 9f4212cc3a64487c5bc7b003e5e197295a8fddf5:
#   pip install iree-base-compiler==3.3.0
# Exit status: 0 the program compiles, 127 the compiler is missing, any other: it fails to compile.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
exec "${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx908 --compile-to=executable-targets --iree-dispatch-creation-enable-aggressive-fusion --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
