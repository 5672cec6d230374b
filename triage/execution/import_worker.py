"""Import ONNX models with the Python modules of one toolchain. Runs as a worker of `onnx_import.py`, without triage.

A request is its length in 8 hexadecimal digits and a JSON list of the model's path and the path to write. The answer is
sent the same way: `+` when the model was imported, else `-`.
"""

import importlib
import json
import os
import sys


def main() -> None:
    """Answer requests until the input ends."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the importer prints is no answer
    program = importlib.import_module(f"{sys.argv[1]}.__main__")
    while len(header := source.read(8)) == 8:
        model, target = json.loads(source.read(int(header, 16)))
        answer = b"-"
        try:
            if not program.main(program.parse_arguments([model, "-o", target])):
                answer = b"+"
        except (Exception, SystemExit):  # it is imported again by itself, which prints why
            answer = b"-"
        sink.write(f"{len(answer):08x}".encode() + answer)
        sink.flush()


if __name__ == "__main__":
    main()
