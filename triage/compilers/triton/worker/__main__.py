"""Compiles one kernel ahead of time with the Triton that the folder TRIAGE_TRITON
holds.

worker --spec JSON [--phase STAGE] SOURCE -o OUTPUT

SOURCE is a file with a kernel, or IR that this release wrote (.ttir, .ttgir). Lines on
stdout that begin with `triage: ` are JSON: {"stage": name} as each stage begins,
{"metrics": {...}} at the end, {"refused": {...}} with the line of the kernel and the
names in it that the language refuses. Exit 0: compiled, and OUTPUT holds what the last
stage made. Otherwise what Triton printed, or one line, is on stderr.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import traceback
from pathlib import Path

if not __package__:  # started as a folder
    sys.path[0] = str(Path(__file__).absolute().parent.parent)
    __package__ = Path(__file__).absolute().parent.name  # relative imports go by it

from .api_versions import compile_kernel
from .isolation import prepare, read_assembler
from .report import Ended, KernelReport, Mistaken, Unsupported, print_report


def main() -> int:
    """Compile a kernel and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--phase")
    parser.add_argument("source")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args()
    prepare(options.spec)
    report = KernelReport(options.phase)
    read_assembler(report)
    try:
        compile_kernel(options.source, options.spec, report)
    except Ended:
        report.write(options.output)
        return report.within(options.spec["shared_limit"])
    except Unsupported as error:
        print(f"error: this Triton has no {error}", file=sys.stderr)
    except Mistaken as error:
        print(f"error: the recipe does not fit its kernel: {error}", file=sys.stderr)
    except Exception as error:
        _explain(error)
    return 1


def _explain(error: BaseException) -> None:
    """Print an error of the compiler with its traceback, and an error of the kernel's
    language as the message of the innermost call that failed.
    """
    from triton.compiler.errors import CompilationError

    # found missing before the kernel is read
    if isinstance(error, AttributeError) and "module 'triton" in str(error):
        message = repr(error)
    elif not isinstance(error, CompilationError):
        traceback.print_exception(type(error), error, error.__traceback__)
        return
    else:
        if error.node is not None:
            if isinstance(error.node, ast.For):
                place = error.node.iter
            else:
                place = error.node
            names = sorted(
                {node.id for node in ast.walk(place) if isinstance(node, ast.Name)}
            )
            print_report(
                {"refused": {"line": getattr(error.node, "lineno", 0), "names": names}}
            )
        while isinstance(error.__cause__, CompilationError):
            error = error.__cause__
        print(error, file=sys.stderr)
        lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
        # Some releases put what went wrong into the text, others leave it to the cause.
        if error.__cause__ is not None:
            message = repr(error.__cause__)
        elif lines:
            message = lines[-1]
        else:
            message = type(error).__name__
    print(f"error: the kernel's language refuses it: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
