#!/bin/sh
# 'tt.load' op operation destroyed but still has uses
# Fails with triton 3.5.0:
#   pip install triton==3.5.0
# Exit status: 0 the program compiles, 127 the compiler is missing, any other: it fails to compile.
# Set PYTHON to the interpreter that has it.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import triton" || exit 127
exec "${PYTHON:-python3}" repro.py
