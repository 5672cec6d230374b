"""Count the functions of this program that a command enters, and their files."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

_SETTLING = 2.1  # seconds after which the state of a file stands for its content
# It takes long enough for each check of its limits.
COMPILER = '#!/bin/sh\nsleep 0.3\ncp "$1" "$2"\n'
RECIPE = """name: copied
compiler: command
command: ["{toolchain}/copy", "{input}", "{output}"]
input: program.txt
"""
# Lambdas, comprehensions and bodies of classes and modules do not count.
COUNTING = """
import sys, threading
from inspect import CO_NEWLOCALS
from pathlib import Path
import triage
root, entered = str(Path(triage.__file__).parent), set()
def note(frame, event, _):
    code = frame.f_code
    named = code.co_flags & CO_NEWLOCALS and not code.co_name.startswith("<")
    if event == "call" and named and code.co_filename.startswith(root):
        entered.add((code.co_filename, code.co_firstlineno))
threading.setprofile(note)
sys.setprofile(note)
from triage.cli import main
try:
    main()
finally:
    sys.setprofile(None)
    print(len(entered), len({file for file, _ in entered}), file=sys.stderr)
"""


def entered(*words: str, folder: Path) -> tuple[int, int]:
    """Return how many functions and files `triage WORDS` enters."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, "--quiet", *words],
        env={"TRIAGE_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    functions, files = done.stderr.split()[-2:]
    return int(functions), int(files)


def figures() -> dict[str, float]:
    """Return the figures of one case that a small compiler compiles, and again with the
    answer cached.
    """
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "built").mkdir()
        (folder / "built" / "copy").write_text(COMPILER)
        (folder / "built" / "copy").chmod(0o755)
        (folder / "program.txt").write_text("program\n")
        (folder / "recipe.yaml").write_text(RECIPE)
        words = ("run", str(folder / "recipe.yaml"), "-t", f"path:{folder / 'built'}")
        time.sleep(_SETTLING)
        fresh = entered(*words, folder=folder)
        known = entered(*words, folder=folder)
    return {
        "functions entered by a run": fresh[0],
        "files entered by a run": fresh[1],
        "functions entered by a cached run": known[0],
        "files entered by a cached run": known[1],
    }
