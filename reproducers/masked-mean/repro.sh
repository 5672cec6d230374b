#!/bin/sh
# result 0 (onnx.ReduceMax), element 0 is 0, expected 1; 1 of 1 elements differ
# Fails with iree-compile 3.12.0, commit 2b05c5dbb2f2ecb27c0d3941e80ee8d2f16e890d
#   pip install iree-base-compiler==3.12.0 iree-base-runtime==3.12.0
# Exit status: 0 the program computes the expected results, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE and IREE_RUN_MODULE and PYTHON to use another compiler.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import numpy" || exit 127
"${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=llvm-cpu --mlir-print-op-on-diagnostic=false input.mlir -o module.vmfb &&
"${IREE_RUN_MODULE:-iree-run-module}" --module=module.vmfb --device=local-sync --function=masked_mean --input=1x2xi1=@input_0.bin --output=@result_0.npy &&
"${PYTHON:-python3}" compare.py
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
