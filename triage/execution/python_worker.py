"""Answer requests with the Python modules of one toolchain: check MLIR (`check PACKAGE`), import models (`import MODULE`).

Runs as a `Worker` of `process.py` in a process of its own, and imports nothing of triage. An answer begins with `+`, or with
`-` for an error.
"""

import importlib
import json
import os
import sys
from typing import Any

RENEW = 256  # texts for each context: a context never frees types and attributes


class Checker:
    """Answers a text with the generic form of its module."""

    def __init__(self, package: str) -> None:
        self.ir: Any = importlib.import_module(f"{package}.ir")
        self.count = 0

    def __call__(self, request: bytes) -> str:
        if self.count % RENEW == 0:
            self.context = self.ir.Context()
        self.count += 1
        try:
            module = self.ir.Module.parse(request.decode(), self.context)
            return f"+{module.operation.get_asm(print_generic_op_form=True)}"
        except Exception as error:  # whatever the bindings of this version raise
            return f"-{error}"


class Importer:
    """Imports a model. A request is a JSON list of the model's path and the path to write."""

    def __init__(self, module: str) -> None:
        self.program: Any = importlib.import_module(f"{module}.__main__")

    def __call__(self, request: bytes) -> str:
        model, target = json.loads(request)
        try:
            return "-" if self.program.main(self.program.parse_arguments([model, "-o", target])) else "+"
        except (Exception, SystemExit):  # it is imported again by itself, which prints why
            return "-"


def main() -> None:
    """Answer requests until the input ends."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the modules print is not an answer
    answer = Checker(sys.argv[2]) if sys.argv[1] == "check" else Importer(sys.argv[2])
    while len(header := source.read(8)) == 8:
        data = answer(source.read(int(header, 16))).encode()
        sink.write(f"{len(data):08x}".encode() + data)
        sink.flush()


if __name__ == "__main__":
    main()
