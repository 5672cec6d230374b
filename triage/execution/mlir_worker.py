"""Check MLIR with the Python bindings of one toolchain. Runs as a worker of `mlir_tools.py` and imports nothing of triage.

A request is the length of a text in 8 hexadecimal digits and the text. The answer is sent the same way: `+` and the generic
form of a valid module, or `-` and the error.
"""

import importlib
import sys

RENEW = 256  # texts for each context: a context never frees types and attributes


def main() -> None:
    """Answer requests until the input ends."""
    ir = importlib.import_module(f"{sys.argv[1]}.ir")
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    context, count = None, 0
    while len(header := source.read(8)) == 8:
        text = source.read(int(header, 16)).decode()
        if context is None or count >= RENEW:
            context, count = ir.Context(), 0
        count += 1
        mark, answer = "+", ""
        try:
            module = ir.Module.parse(text, context)
            answer = module.operation.get_asm(print_generic_op_form=True)
        except Exception as error:  # whatever the bindings of this version raise
            mark, answer = "-", str(error)
        data = f"{mark}{answer}".encode()
        sink.write(f"{len(data):08x}".encode() + data)
        sink.flush()


if __name__ == "__main__":
    main()
