"""Print how large the Python code in folders is, and how dense: tokens, lines,
conditional expressions, widths.

Tokens do not count comments and layout. Lines are those with code: no blank lines,
comments or docstrings.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
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
LIMITS = {
    "tokens": 265_000,
    "files": 200,
    "tokens a code line": 8.0,
    "conditional expressions for 1,000 tokens": 2.0,
    "walruses for 1,000 tokens": 0.25,
    "columns of 90 % of code lines": 84,
    "public names defined in two modules": 6,
}


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
        tree = ast.parse(text)
        docstrings = {
            number for node in ast.walk(tree) for number in docstring_lines(node)
        }
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
        self.conditions += sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))
        self.walruses += sum(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))
        self.widths += [len(lines[number - 1]) for number in numbers - docstrings]

    def figures(self) -> dict[str, float]:
        """Return the figures that have limits."""
        widths = sorted(self.widths)
        return {
            "tokens": self.tokens,
            "files": self.files,
            "tokens a code line": self.tokens / len(widths),
            "conditional expressions for 1,000 tokens": 1000
            * self.conditions
            / self.tokens,
            "walruses for 1,000 tokens": 1000 * self.walruses / self.tokens,
            "columns of 90 % of code lines": widths[int(0.9 * len(widths))],
        }


def docstring_lines(node: ast.AST) -> Iterator[int]:
    """Yield the numbers of lines that a bare text in a body fills."""
    for statement in (
        getattr(node, "body", ())
        if not isinstance(node, ast.Lambda | ast.IfExp)
        else ()
    ):
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from range(statement.lineno, (statement.end_lineno or 0) + 1)


def names_defined_twice(folder: Path) -> list[str]:
    """Return public classes and functions that several modules define."""
    places = defaultdict(set)
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(
                node, ast.ClassDef | ast.FunctionDef
            ) and not node.name.startswith("_"):
                places[node.name].add(path)
    return sorted(name for name, paths in places.items() if len(paths) > 1)


def main() -> None:
    """Print a row for each folder, for each package in the first one, and the limits of
    the first one.
    """
    first, *others = map(Path, sys.argv[1:])
    figures: dict[str, float] = {}
    for folder in (
        *(path for path in sorted(first.iterdir()) if path.is_dir()),
        first,
        *others,
    ):
        size = Size()
        for path in sorted(folder.rglob("*.py")):
            size.add(path.read_text("utf-8"))
        if size.files:
            print(
                f"{folder!s:24} {len(size.widths):7,} lines {size.tokens:8,} tokens {size.files:4} files"
            )
        if folder == first:
            figures = size.figures()
    twice = names_defined_twice(first)
    figures["public names defined in two modules"] = len(twice)
    for name, limit in LIMITS.items():
        print(f"{name:44} {figures[name]:10,.2f}  limit {limit:,}")
    print(f"defined in two modules: {', '.join(twice)}")


if __name__ == "__main__":
    main()
