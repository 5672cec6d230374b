"""Checks MLIR for `reading.py`, run by itself with the bindings of one toolchain on its path.

Standard input: the length of a text in 8 hexadecimal digits, then the text. Standard output: `+` or `-`, a length as
above, then the generic form of a valid module or what is wrong with the text. Nothing of this program is imported here.
"""

import importlib
import sys

RENEW = 256  # texts per context: types and attributes of all texts stay in one for ever


def main() -> None:
    """Answer until the input ends."""
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
        data = answer.encode()
        sink.write(f"{mark}{len(data):08x}".encode() + data)
        sink.flush()


if __name__ == "__main__":
    main()
