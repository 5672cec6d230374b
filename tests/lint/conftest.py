"""Programs parsed with the installed compiler."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.lint_program import LintProgram
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.model.revision import Capabilities, Revision, Toolchain

Read = Callable[..., LintProgram]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """A program from its text, its options and its backend."""
    root, revision = Path(sys.prefix), Revision("installed")
    program = Iree().locate(root)
    assert program
    installed = Toolchain(
        "iree", revision, "", root, program, Capabilities(), reads=(root,)
    )
    tools = Iree().mlir_tools(installed)
    assert tools
    reader = Reader(tools, threading.Event())

    def made(text: str, *about: Any) -> LintProgram:
        path = tmp_path / "planted.mlir"
        path.write_text(text)
        generic = reader.generic_form(path, elide=True)
        assert generic, reader.parse_error(path)
        return LintProgram(parse_module(generic), *about)

    return made
