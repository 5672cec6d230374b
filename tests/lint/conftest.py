"""Programs parsed with the installed compiler."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.lint_program import LintProgram
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.model.revision import Revision, Toolchain
from triage.processes.sealing import Seal

Read = Callable[..., LintProgram]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """A program from its text, its options and its backend."""
    root = Path(sys.prefix)
    program = Iree().locate(root)
    assert program
    tools = Iree().mlir_tools(
        Toolchain(
            "iree",
            Revision("installed"),
            "",
            root,
            program,
            Iree().describe(program, Seal((root,))).capabilities,
            reads=(root,),
        ),
    )
    assert tools
    reader = Reader(tools, threading.Event())

    def made(
        text: str,
        options: Sequence[str] = (),
        backend: str | None = None,
    ) -> LintProgram:
        path = tmp_path / "planted.mlir"
        path.write_text(text)
        generic = reader.generic_form(path, elide=True)
        assert generic, reader.parse_error(path)
        return LintProgram(parse_module(generic), options, backend)

    return made
