#!/bin/sh
# 'func.func' op failed to distribute
# Fails with iree-compile 3.11.0, commit e4a3b0405d7d23554da26403658d0e8c3c5ecf25:
#   pip install iree-base-compiler==3.11.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-rocm-target=gfx908 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
