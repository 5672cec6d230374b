#!/bin/sh
# 'func.func' op exceeded stack allocation limit of 32768 bytes for function. Got 57344 bytes
# Fails with iree-compile 3.0.0, commit 29c451b00ecc9f9e5466e9d1079e0d69147da700:
#   pip install iree-base-compiler==3.0.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=llvm-cpu --compile-to=executable-targets --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
