#!/bin/sh
# 'hal.tensor.import' op references a promised device that was not declared: #hal.device.promise<@__device_7>
# Fails with iree-compile 3.8.0, commit afe01bda52cf977a8e371caf147e38a38542622d:
#   pip install iree-base-compiler==3.8.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" '--iree-hal-target-device=hip[0]' --iree-hip-target=gfx908 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
