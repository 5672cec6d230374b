"""A compiler that is one Python file, repositories of it, and how tests bisect them."""

from __future__ import annotations

from pathlib import Path

from tests.git_history.history import History

PROGRAMS = {
    "P": "print(open(sys.argv[1]).read())",
    "F": 'sys.exit("tinyc: internal error: lost a symbol")',
    "G": 'sys.exit("tinyc: fatal: cannot allocate a register")',
    "N": "from os import emit",  # a missing name
    "S": "import os\nif os.urandom(1)[0] < 205: sys.exit('tinyc: internal error')",
    "H": 'sys.exit("usage: tinyc [-h] file\\ntinyc: error: unrecognized arguments: -x")',
}
COPIED = """name: tinyc
compiler: command
build: {commands: 'cp tinyc.py "$TRIAGE_OUT"'}
paths: [tinyc.py]
"""
WITH_SUBMODULES = COPIED.replace("{commands", "{submodules: true, commands")
RECIPE = """name: p
summary: s
compiler: command
command: [python3, "{toolchain}/tinyc.py", "{input}"]
input: p.c
"""


def compiler(letter: str, number: int) -> str:
    return f"import sys\n\n{PROGRAMS[letter]}\n# {number}\n"


def repository(letters: str, folder: Path) -> list[str]:
    """Write a commit for each letter; B has no compiler. Return the shas."""
    history = History.begin(folder)
    shas = []
    for number, letter in enumerate(letters):
        if letter == "B":
            (folder / "tinyc.py").unlink(missing_ok=True)
        else:
            history.write("tinyc.py", compiler(letter, number))
        shas.append(history.commit(f"change {number} (#{100 + number})"))
    return shas


def write_case(folder: Path, recipe: str = RECIPE) -> None:
    """Write the project file, a program and its recipe."""
    (folder / "triage.yaml").write_text(COPIED)
    (folder / "p.c").write_text("int x;\n")
    (folder / "r.yaml").write_text(recipe)


def between(clone: Path, good: str, bad: str) -> list[object]:
    """Return the options for a search of the commits between two."""
    return ["--repo", clone, "--good", f"commit:{good}", "--bad", f"commit:{bad}"]
