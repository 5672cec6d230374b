#!/bin/sh
# LinearLayout::reshapeOuts (LinearLayout.cpp): assertion `getTotalOutDimSize() == std::accumulate( newOutDims.begin(), newOutDims.end(), 1, [&](int32_t acc, auto &outDim) { return acc * outDim.second; })' failed
# Fails with triton 3.2.0:
#   pip install triton==3.2.0 setuptools
# Exit status 0: it compiles; 127: there is no compiler; any other: it fails.
# PYTHON names the interpreter that has it.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import triton" || exit 127
exec "${PYTHON:-python3}" repro.py
