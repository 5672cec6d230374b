"""Work with the Python modules of one toolchain, in a process of its own; imports
nothing of triage.

`python_worker.py PACKAGE` checks MLIR, one request after another; an answer begins with
`+`, or with `-` for an error.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

RENEW = 256  # texts for each context: a context never frees types and attributes


def make_checker(package: str) -> Callable[[bytes], str]:
    """Return a function that answers a text with the generic form of its module."""
    ir: Any = importlib.import_module(f"{package}.ir")
    context: Any = None
    count = 0

    def check(request: bytes) -> str:
        nonlocal context, count
        if count % RENEW == 0:
            context = ir.Context()
        count += 1
        try:
            module = ir.Module.parse(request.decode(), context)
            return f"+{module.operation.get_asm(print_generic_op_form=True)}"
        except Exception as error:  # whatever the bindings of this version raise
            return f"-{error}"

    return check


def main() -> None:
    """Answer requests until the input ends."""
    name = sys.argv[1]
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the modules print is not an answer
    answer = make_checker(name)
    while len(header := source.read(8)) == 8:
        data = answer(source.read(int(header, 16))).encode()
        sink.write(f"{len(data):08x}".encode() + data)
        sink.flush()


if __name__ == "__main__":
    main()
