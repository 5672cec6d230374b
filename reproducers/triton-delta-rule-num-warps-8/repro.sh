#!/bin/sh
# LinearLayout::reshapeOuts (LinearLayout.cpp): assertion `getTotalOutDimSize() == std::accumulate( newOutDims.begin(), newOutDims.end(), 1, [&](int32_t acc, auto &outDim) { return acc * outDim.second; })' failed
# Fails with triton 3.2.0:
#   pip install triton==3.2.0 setuptools
# Exit status: 0 the program compiles, 127 the compiler is missing, any other: it fails to compile.
# Set PYTHON to the interpreter that has it.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import triton" || exit 127
exec "${PYTHON:-python3}" repro.py
