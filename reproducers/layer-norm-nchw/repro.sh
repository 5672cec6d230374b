#!/bin/sh
# 'func.func' op failed to distribute
# Fails with iree-compile 3.9.0, commit 1a6681936a78138f7ae2b0fd9309d28dfe01ac5b:
#   pip install iree-base-compiler==3.9.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx1100 --compile-to=executable-targets --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
