"""Compiles one kernel ahead of time with the Triton that the folder TRIAGE_TRITON
holds.

worker --spec JSON [--phase STAGE] SOURCE -o OUTPUT

SOURCE is a file with a kernel, or IR that this release wrote (.ttir, .ttgir). If it
compiles, OUTPUT is the product of the last stage, and the exit status is 0. Otherwise
stderr has Triton's error, or one line. Lines on stdout that begin with `triage: ` are
JSON:

- {"stage": NAME} when a stage begins
- {"metrics": {...}} at the end
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import traceback
from pathlib import Path

if not __package__:  # started as a folder, whose own folder may not be listed
    __package__ = "worker"  # relative imports go by it
    here = Path(__file__).absolute().parent
    spec = importlib.util.spec_from_file_location(
        __package__, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec
    sys.modules[__package__] = importlib.util.module_from_spec(spec)

from .api_versions import compile_kernel
from .isolation import prepare, record_assembler
from .report import Ended, KernelReport, Mistaken, Unsupported


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
    record_assembler(report)
    try:
        compile_kernel(options.source, options.spec, report)
    except Ended:
        report.write(options.output)
        return 0 if report.check_fits_chip(options.spec["shared_limit"]) else 1
    except Unsupported as error:
        print(f"error: this Triton has no {error}", file=sys.stderr)
    except Mistaken as error:
        print(f"error: the recipe does not fit its kernel: {error}", file=sys.stderr)
    except Exception as error:
        _explain(error)
    return 1


def _explain(error: BaseException) -> None:
    """Print an error of Triton. One in the kernel is a message, others a traceback."""
    from triton.compiler.errors import CompilationError

    if isinstance(error, CompilationError):
        while isinstance(error.__cause__, CompilationError):
            error = error.__cause__  # of the innermost call
        print(error, file=sys.stderr)
        message = _message_of(error)
    elif isinstance(error, AttributeError) and "module 'triton" in str(error):
        message = repr(error)  # found missing before the kernel is read
    else:
        traceback.print_exception(type(error), error, error.__traceback__)
        return
    print(f"error: the kernel's language refuses it: {message}", file=sys.stderr)


def _message_of(error: BaseException) -> str:
    # In some releases the cause says what went wrong, in others the last line does.
    if error.__cause__ is not None:
        return repr(error.__cause__)
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
