"""Print how large the program is, how dense, how many options it has and how many of
its functions a command enters, next to the budgets in `budgets.toml`, which only fall.

Tokens do not count comments and layout. Lines are those with code: no blank lines,
comments or docstrings.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import time
import tokenize
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
BUDGETS = Path(__file__).with_name("budgets.toml")
PROGRAM = Path("triage")
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


def tokens_of(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of a file that count."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token for token in tokens if token.type not in LAYOUT]


def density(texts: list[str]) -> dict[str, float]:
    """Return the figures of files that say how dense they are."""
    count, widths, kinds = 0, list[int](), Counter[type]()
    for text in texts:
        nodes, tokens = [*ast.walk(ast.parse(text))], tokens_of(text)
        numbers = {
            n for token in tokens for n in range(token.start[0], token.end[0] + 1)
        }
        lines = text.splitlines()
        widths += [len(lines[number - 1]) for number in numbers - bare_texts(nodes)]
        count += len(tokens)
        kinds.update(map(type, nodes))
    return {
        "files": len(texts),
        "tokens a code line": count / len(widths),
        "conditional expressions for 1,000 tokens": 1000 * kinds[ast.IfExp] / count,
        "walruses for 1,000 tokens": 1000 * kinds[ast.NamedExpr] / count,
        "columns of 90 % of code lines": sorted(widths)[int(0.9 * len(widths))],
    }


def bare_texts(nodes: list[ast.AST]) -> set[int]:
    """Return the numbers of the lines of texts that are statements."""
    lines: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def names_defined_twice() -> list[str]:
    """Return public classes and functions that several modules define."""
    places = defaultdict(set)
    for path in PROGRAM.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    places[name].add(path)
    names = sorted(name for name, paths in places.items() if len(paths) > 1)
    return [name for name in names if not name.startswith("_")]


def options() -> dict[str, float]:
    """Return how many options all commands have, and the most of one."""
    from triage.cli.app import every_command

    counts = {
        " ".join(words): sum(
            option.param_type_name == "option" for option in command.params
        )
        for words, command in every_command()
    }
    total, large = sum(counts.values()), [counts.pop("bisect"), counts.pop("nightly")]
    return {
        "options": total,
        "options of bisect or nightly": max(large),
        "options of another command": max(counts.values()),
    }


def entered() -> dict[str, float]:
    """Return how many functions of this program, and files, are entered by the run of a
    case that a small compiler compiles, once this version has run, and again with the
    answer cached.
    """
    found: dict[str, float] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "built").mkdir()
        (folder / "built" / "copy").write_text(COMPILER)
        (folder / "built" / "copy").chmod(0o755)
        (folder / "program.txt").write_text("program\n")
        (folder / "recipe.yaml").write_text(RECIPE)
        words = ("run", folder / "recipe.yaml", "-t", f"path:{folder / 'built'}")
        time.sleep(_SETTLING)
        # the first ones store the checks of recipes and results beside the program
        for what in ("a first run", "a first cached run", "a run", "a cached run"):
            home = "first" if "first" in what else "later"
            done = subprocess.run(
                [sys.executable, "-c", COUNTING, "--quiet", *words],
                env={"TRIAGE_HOME": str(folder / home), "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=True,
            )
            functions, files = done.stderr.split()[-2:]
            found[f"functions entered by {what}"] = int(functions)
            found[f"files entered by {what}"] = int(files)
    return found


def main() -> int:
    """Print each figure next to its budget; return 1 if one is above it."""
    found: dict[str, float] = {}
    packages = [path for path in sorted(PROGRAM.iterdir()) if path.is_dir()]
    for folder in (*packages, PROGRAM, Path("tests"), Path("benchmarks")):
        texts = [path.read_text("utf-8") for path in folder.rglob("*.py")]
        if texts:
            found[str(folder)] = sum(len(tokens_of(text)) for text in texts)
        if folder == PROGRAM:
            found |= density(texts)
    twice = names_defined_twice()
    found["public names defined in two modules"] = len(twice)
    found |= options() | entered()
    budgets = tomllib.loads(BUDGETS.read_text("utf-8"))
    broken = len(budgets.keys() - found.keys())
    for name, figure in found.items():
        budget = budgets.get(name, -1)
        is_above = round(figure, 2) > budget
        broken += is_above
        mark = "  ABOVE" if is_above else ""
        print(f"{name:44} {figure:10,.2f}  budget {budget:10,}{mark}")
    for name in budgets.keys() - found.keys():
        print(f"{name}: a budget for nothing in {BUDGETS}")
    print(f"defined in two modules: {', '.join(twice)}")
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
