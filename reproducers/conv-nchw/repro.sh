#!/bin/sh
# 'memref.collapse_shape' op expected collapsed type to be 'memref<1x1x?xf32, #gpu.address_space<workgroup>>' but found 'memref<1x1x?xf32, #amdgpu.address_space<fat_raw_buffer>>'
# Fails with iree-compile 3.7.0, commit b4da7b202cf21e07c418250f697565734f9e5f19:
#   pip install iree-base-compiler==3.7.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx908 --compile-to=executable-targets --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
