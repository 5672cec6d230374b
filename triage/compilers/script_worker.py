"""Runs a Python program with the packages of the interpreter that starts this script,
and keeps what it prints; imports nothing of triage.

    script_worker.py script [--once] [--words] [--flags-in=VARIABLE FLAG...]
        SCRIPT -o OUTPUT
    script_worker.py run --module=OUTPUT [--output=@FILE...]
    script_worker.py describe

A program runs twice unless --once is given, each time in a process of its own. What it
prints otherwise the second time, such as a time, does not count. OUTPUT is JSON: the
numbers and, with --words, the words that it printed. These are its results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import subprocess
import sys
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
_RUNNER = Path(__file__).with_name("script_runner.py")


def run_script(options: argparse.Namespace) -> None:
    """Run a program and write OUTPUT. If the program fails, this process ends in the
    same way.
    """
    first = second = printed_by(options.module)
    if not options.once:
        second = printed_by(options.module)
    numbers = equal_parts(_NUMBER.findall(first), _NUMBER.findall(second))
    read = [float(_TRUTH.get(text.lower(), text or 0)) for text in numbers]
    results: dict[str, object] = {"numbers": read}
    if options.words:
        results["words"] = equal_parts(words_in(first), words_in(second))
    options.target.write_text(json.dumps(results))


def printed_by(script: Path) -> str:
    """Run a program, pass on what it prints, and return it. Its errors name it
    `script.py`, because a failure is the same in a file of another name.
    """
    argv = [sys.executable, str(script)]
    if _RUNNER.is_file():  # it is not in a reproducer
        argv.insert(1, str(_RUNNER))
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


def words_in(text: str) -> list[str]:
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
    numbers, words = results["numbers"], results.get("words")
    arrays = [("f64", numbers, "<f8", struct.pack(f"<{len(numbers)}d", *numbers))]
    if words is not None:
        width = max(map(len, words), default=1) or 1
        text = "".join(word.ljust(width, "\0") for word in words)
        arrays.append(("text", words, f"<U{width}", text.encode("utf-32-le")))
    for index, (element, values, kind, data) in enumerate(arrays):
        shown = " ".join(map(str, values[:8]))
        sys.stdout.write(f"result[{index}]: {len(values)}x{element}={shown}\n")
        if files:
            path = Path(files[index].lstrip("@"))
            header = b""
            if path.suffix == ".npy":
                header = npy_header(kind, len(values))
            path.write_bytes(header + data)


def npy_header(kind: str, size: int) -> bytes:
    """Return what precedes the bytes of an array in a .npy file, 128 bytes. Not every
    environment has numpy.
    """
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': ({size},)}}"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    return start + text.ljust(117).encode() + b"\n"


def main() -> None:
    """Do the work that the first argument names."""
    work = sys.argv[1]
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
    run_script(options)


if __name__ == "__main__":
    main()
