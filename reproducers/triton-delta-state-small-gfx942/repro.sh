#!/bin/sh
# 'tt.load' op operation destroyed but still has uses
# Fails with triton 3.5.0:
#   pip install triton==3.5.0
# Exit status 0: it compiles; 127: there is no compiler; any other: it fails.
# PYTHON names the interpreter that has it.
cd "$(dirname "$0")" || exit 127
"${PYTHON:-python3}" -c "import triton" || exit 127
exec "${PYTHON:-python3}" repro.py
