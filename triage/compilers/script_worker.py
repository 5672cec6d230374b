"""Runs a Python program with the packages of the interpreter that starts this script,
and keeps what it prints; imports nothing of triage.

    script_worker.py script [--once] [--words] [--flags-in=VARIABLE FLAG...]
        SCRIPT -o OUTPUT
    script_worker.py run --module=OUTPUT [--output=@FILE...]
    script_worker.py execute SCRIPT WORD...
    script_worker.py describe

A program runs twice unless --once is given, each time in a process of its own. What it
prints otherwise the second time, such as a time, does not count. OUTPUT is JSON: the
numbers and, with --words, the words that it printed. These are its results.

`execute` runs a program whose folder may not be listed. Python lists a folder to find a
module in it. A sealed program may read the modules that it needs and list nothing, so
each place where a module may be is tried instead.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import runpy
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# A number or a truth value in a text, which is not a part of a word, a version, a date,
# an address, a time or a size.
_NUMBER = re.compile(
    r"(?<![\w.:/+-])[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|nan|inf|true|false)"
    r"(?![\w.:/-]|\s*(?:[nuµm]?s|secs?|seconds?|minutes?|[kmg]i?b|%)\b)",
    re.IGNORECASE,
)
# A word with one of these.
_CHANGING = re.compile(
    r"^\W*\d+\W*$|\d[.:/-]\d|0x[\da-f]|\d(?:[nuµm]?s|[kmg]i?b|%)\b", re.IGNORECASE
)
_TRUTH = {"true": "1", "false": "0"}
# Errors of a program that needs what a release of a package lacks.
_LACKING = re.compile(r"module '[\w.]+' has no|unexpected keyword argument")


def write_stable_output(options: argparse.Namespace) -> None:
    """Run a program, and write what it prints each time to OUTPUT. If the program
    fails, this process ends in the same way.
    """
    first = second = run_and_capture(options.module)
    if not options.once:
        second = run_and_capture(options.module)
    numbers = equal_parts(_NUMBER.findall(first), _NUMBER.findall(second))
    results: dict[str, object] = {
        "f64": [float(_TRUTH.get(text.lower(), text or 0)) for text in numbers]
    }
    if options.words:
        results["text"] = equal_parts(stable_words(first), stable_words(second))
    options.target.write_text(json.dumps(results))


def run_and_capture(script: Path) -> str:
    """Run a program, pass on what it prints, and return its output. If it fails, end
    this process in the same way. Its errors name it `script.py`, because a failure is
    the same in a file of another name.
    """
    argv = [sys.executable, __file__, "execute", str(script)]
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, capture_output=True, env=env, check=False)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(done.stderr.replace(os.fsencode(script), b"script.py"))
    sys.stderr.flush()
    if done.returncode < 0:
        os.kill(os.getpid(), -done.returncode)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.decode(errors="replace")


class NeighbourModules:
    """Finds modules and packages in the folders of all files among the arguments."""

    def __init__(self, words: Sequence[str]) -> None:
        files = [os.path.abspath(word) for word in words if os.path.isfile(word)]
        self.folders = list(dict.fromkeys(map(os.path.dirname, files)))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> Any:
        for folder in self.folders if path is None else path:
            stem = os.path.join(folder, name.rpartition(".")[2])
            for file, inner in ((f"{stem}/__init__.py", [stem]), (f"{stem}.py", None)):
                if os.path.isfile(file):
                    return importlib.util.spec_from_file_location(
                        name, file, submodule_search_locations=inner
                    )
        return None


def execute(words: list[str]) -> None:
    """Run a program with its arguments. What it needs and a release lacks raises
    ImportError.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != here]
    finder: Any = NeighbourModules(words)
    sys.meta_path.append(finder)
    sys.argv[:] = words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except (AttributeError, SyntaxError, TypeError) as error:
        is_unreadable = isinstance(error, SyntaxError) and error.filename == words[0]
        if is_unreadable or _LACKING.search(str(error)):
            raise ImportError(f"this release cannot run it: {error}") from error
        raise


def stable_words(text: str) -> list[str]:
    """Return the words of a text, without numbers and words with a version, such as
    paths of the environment, with a time or a size.
    """
    words = _NUMBER.sub(" ", text).split()
    return [word for word in words if not _CHANGING.search(word)]


def equal_parts(first: list[str], second: list[str]) -> list[str]:
    """Return the parts of the first list, those that differ in the second as empty.
    Lists of two lengths have no equal parts.
    """
    if len(first) != len(second):
        return []
    pairs = zip(first, second)  # noqa: B905 - it needs Python 3.10
    return [part if part == other else "" for part, other in pairs]


def print_results(results: dict[str, list[Any]], files: list[str]) -> None:
    """Print results, and write them to files if there are any."""
    for index, (element, values) in enumerate(results.items()):
        shown = " ".join(map(str, values[:8]))
        sys.stdout.write(f"result[{index}]: {len(values)}x{element}={shown}\n")
        if files:
            write_array(Path(files[index].lstrip("@")), element, values)


def write_array(path: Path, element: str, values: list[Any]) -> None:
    """Write an array as `.npy`, or its bytes alone. Not every environment has numpy."""
    kind = "<f8"
    header = b""
    if element == "text":
        width = max(map(len, values), default=1) or 1
        kind = f"<U{width}"
        text = "".join(word.ljust(width, "\0") for word in values)
        data = text.encode("utf-32-le")
    else:
        data = struct.pack(f"<{len(values)}d", *values)
    if path.suffix == ".npy":
        size = f"'fortran_order': False, 'shape': ({len(values)},)"
        text = f"{{'descr': {kind!r}, {size}}}".ljust(117)
        header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.encode() + b"\n"
    path.write_bytes(header + data)


def main() -> None:
    """Do the work that the first argument names."""
    work = sys.argv[1]
    if work == "execute":
        execute(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--module" if work == "run" else "module", type=Path)
    parser.add_argument("-o", dest="target", type=Path)
    for name in ("--once", "--words"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--flags-in", default="FLAGS")
    parser.add_argument("--output", action="append", default=[])
    if work == "describe":
        return
    options, flags = parser.parse_known_args(sys.argv[2:])
    if work == "run":
        print_results(json.loads(options.module.read_text()), options.output)
        return
    if flags:
        user_flags = os.environ.get(options.flags_in, "")
        os.environ[options.flags_in] = " ".join([user_flags, *flags])
    write_stable_output(options)


if __name__ == "__main__":
    main()
