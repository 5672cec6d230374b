"""Print the lines, tokens and files of the Python code in folders. Tokens do not count comments and layout."""

from __future__ import annotations

import sys
import tokenize
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


def main() -> None:
    """Print a row for each folder, and for each package in the first one."""
    first, *others = map(Path, sys.argv[1:])
    for folder in (*(path for path in sorted(first.iterdir()) if path.is_dir()), first, *others):
        files = sorted(folder.rglob("*.py"))
        lines = tokens = 0
        for path in files:
            lines += len(path.read_text("utf-8").splitlines())
            with path.open("rb") as file:
                tokens += sum(token.type not in LAYOUT for token in tokenize.tokenize(file.readline))
        if files:
            print(f"{folder!s:24} {lines:7,} lines {tokens:8,} tokens {len(files):4} files")


if __name__ == "__main__":
    main()
