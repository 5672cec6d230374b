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
        nodes = (
            []
            if path.is_relative_to(PACKAGE / "compilers")
            else list(ast.walk(ast.parse(path.read_text())))
        )
        examples = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = [
            str(node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and id(node) not in examples
        ]
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        names += [
            node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)
        ]
        assert not [text for text in texts + names if WORDS.search(text)], path
