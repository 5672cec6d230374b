"""Print how large the program is, how dense, and how many options and functions it has,
next to the budgets in `budgets.toml`, which only fall.

Tokens do not count comments and layout. Lines are those with code: no blank lines,
comments or docstrings.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass
class Size:
    """The size of the files of a folder."""

    files: int = 0
    tokens: int = 0
    conditions: int = 0
    walruses: int = 0
    widths: list[int] = field(default_factory=list)
    """Of each code line."""

    def add(self, text: str) -> None:
        """Count a file."""
        nodes = list(ast.walk(ast.parse(text)))
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        code = [token for token in tokens if token.type not in LAYOUT]
        numbers = {
            number
            for token in code
            for number in range(token.start[0], token.end[0] + 1)
        }
        lines = text.splitlines()
        self.files += 1
        self.tokens += len(code)
        self.conditions += sum(isinstance(node, ast.IfExp) for node in nodes)
        self.walruses += sum(isinstance(node, ast.NamedExpr) for node in nodes)
        self.widths += [
            len(lines[number - 1]) for number in numbers - bare_texts(nodes)
        ]

    def figures(self) -> dict[str, float]:
        """Return the figures that have limits."""
        widths = sorted(self.widths)
        return {
            "files": self.files,
            "tokens a code line": self.tokens / len(widths),
            "conditional expressions for 1,000 tokens": 1000
            * self.conditions
            / self.tokens,
            "walruses for 1,000 tokens": 1000 * self.walruses / self.tokens,
            "columns of 90 % of code lines": widths[int(0.9 * len(widths))],
        }


def bare_texts(nodes: Iterable[ast.AST]) -> set[int]:
    """Return the numbers of the lines of texts that are statements."""
    lines: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def names_defined_twice(folder: Path) -> list[str]:
    """Return public classes and functions that several modules define."""
    places = defaultdict(set)
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    places[name].add(path)
    return sorted(
        name
        for name, paths in places.items()
        if len(paths) > 1 and not name.startswith("_")
    )


def options() -> dict[str, float]:
    """Return how many options all commands have, and the most of one."""
    from triage.cli.app import every_command

    counts = {
        " ".join(words): sum(
            option.param_type_name == "option" for option in command.params
        )
        for words, command in every_command()
    }
    large = {"bisect", "nightly"}
    return {
        "options": sum(counts.values()),
        "options of bisect or nightly": max(counts[name] for name in large),
        "options of another command": max(
            count for name, count in counts.items() if name not in large
        ),
    }


def main() -> int:
    """Print each figure next to its budget; return 1 if one is above it."""
    from benchmarks.entered import figures

    found: dict[str, float] = {}
    program = Path("triage")
    packages = [path for path in sorted(program.iterdir()) if path.is_dir()]
    for folder in (*packages, program, Path("tests"), Path("benchmarks")):
        size = Size()
        for path in sorted(folder.rglob("*.py")):
            size.add(path.read_text("utf-8"))
        if size.files:
            found[str(folder)] = size.tokens
        if folder == program:
            found |= size.figures()
    twice = names_defined_twice(program)
    found["public names defined in two modules"] = len(twice)
    found |= options() | figures()
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
