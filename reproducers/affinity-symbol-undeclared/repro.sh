#!/bin/sh
# crashed in GlobalOpInterface::getGlobalInitialValue
# Fails with iree-compile 3.5.0, commit 2e8738e81cb205197eb636440038d0c4e37b6f4d:
#   pip install iree-base-compiler==3.5.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
"${IREE_COMPILE:-iree-compile}" '--iree-hal-target-device=hip[0]' --iree-hip-target=gfx908 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
