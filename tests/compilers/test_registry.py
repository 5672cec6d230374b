"""Compiler families are known to their packages and the registry only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import triage

PACKAGE = Path(triage.__file__).parent


WORDS = re.compile(
    r"iree(?!-triage)|triton|xla|jaxlib|\.vmfb|\wlinalg_ext|num_stages", re.IGNORECASE
)


def test_no_other_package_names_a_family() -> None:
    """Docstrings and comments may show examples."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if path.is_relative_to(PACKAGE / "compilers") or not WORDS.search(text):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            match node:
                case ast.Expr(value=ast.Constant() as docstring):
                    docstring.value = ""
        assert not WORDS.search(ast.unparse(tree)), path
