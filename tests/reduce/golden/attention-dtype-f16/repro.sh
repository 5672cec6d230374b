#!/bin/sh
# 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes
# Fails with iree-compile 3.2.0, commit 0000000000000000000000000000000000000002
#   pip install iree-base-compiler==3.2.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# Set the variables below to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx942 '--iree-x=a b' input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
