#!/bin/sh
# 'stream.tensor.import' op references a promised device that was not declared: #hal.device.promise<@__device_7>
# Fails with iree-compile 3.13.0, commit 89ece87b89852100c0a4ac3d515e14842d090967:
#   pip install iree-base-compiler==3.13.0
# Exit status 0: it compiles; 127: there is no compiler; any other: it fails. The flags are spelled as that version
# spells them; IREE_COMPILE names another compiler.
cd "$(dirname "$0")" || exit 127
exec "${IREE_COMPILE:-iree-compile}" '--iree-hal-target-device=hip[0]' --iree-rocm-target=gfx942 --mlir-print-op-on-diagnostic=false input.mlir -o /dev/null
