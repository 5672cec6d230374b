#!/bin/sh
# result 0, element 2 is 0, expected 1; 1 of 4 elements differ
# Wrong with iree-compile 3.12.0, commit 2b05c5dbb2f2ecb27c0d3941e80ee8d2f16e890d:
#   pip install iree-base-compiler==3.12.0 iree-base-runtime==3.12.0
# Exit status: 0 the program computes the expected results, 1 it does not, 127 a tool is missing.
# The flags use that version's spelling. Set IREE_COMPILE and IREE_RUN_MODULE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=llvm-cpu --mlir-print-op-on-diagnostic=false input.mlir -o module.vmfb &&
"${IREE_RUN_MODULE:-iree-run-module}" --module=module.vmfb --device=local-sync --input=@input_0.npy --expected_output=@expected_0.npy
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
