#!/bin/sh
# 'linalg.generic' op inferred input/output operand #2 has shape's dimension #0 to be 3, but found 2
# Fails with iree-compile 3.2.0, commit f3bef2de123f08b4fc3b0ce691494891bd6760d0:
#   pip install iree-base-compiler==3.2.0
# Exit status 0: it compiles; 127: there is no compiler; any other: it fails. The flags are spelled as that version
# spells them; IREE_COMPILE names another compiler.
cd "$(dirname "$0")" || exit 127
exec "${IREE_COMPILE:-iree-compile}" --iree-hal-target-backends=rocm --iree-hip-target=gfx942 --compile-to=executable-targets --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
