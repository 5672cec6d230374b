#!/bin/sh
# 'tt.load' op operation destroyed but still has uses
# Fails with triton 3.5.0:
#   pip install triton==3.5.0
# Exit status: 0 the program compiles, 1 it does not, 127 the compiler is missing.
# Set PYTHON to the interpreter that has it.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import triton" || exit 127
"${PYTHON:-python3}" repro.py
status=$?
[ $status = 0 ] || [ $status = 127 ] || status=1
exit $status
