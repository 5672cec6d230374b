#!/bin/sh
# crashed in GlobalOpInterface::getGlobalInitialValue
# Fails with iree-compile 3.5.0, commit 2e8738e81cb205197eb636440038d0c4e37b6f4d:
#   pip install iree-base-compiler==3.5.0
# Exit status: 0 the program compiles, 127 the compiler is missing, any other: it fails to compile.
# The flags use that version's spelling. Set IREE_COMPILE to use another compiler.
cd "$(dirname "$0")" || exit 127
exec "${IREE_COMPILE:-iree-compile}" '--iree-hal-target-device=hip[0]' --iree-hip-target=gfx908 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
