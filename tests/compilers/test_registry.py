"""Compiler families are known to their packages and the registry only; a minimal family needs few methods."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import triage
from triage.cli.app import app
from triage.compilers import registry
from triage.compilers.base import Compiler, Description
from triage.compilers.invocation import Invocation
from triage.model.case import Case
from triage.model.revision import Capabilities, Toolchain

PACKAGE = Path(triage.__file__).parent


WORDS = re.compile(r"iree(?!-triage)|triton|\.vmfb|\wlinalg_ext|num_stages", re.IGNORECASE)


def test_no_other_package_names_a_family() -> None:
    """Docstrings and comments may show examples."""
    for path in PACKAGE.rglob("*.py"):
        nodes = [] if path.is_relative_to(PACKAGE / "compilers") else list(ast.walk(ast.parse(path.read_text())))
        examples = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in examples]
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [text for text in texts + names if WORDS.search(text)], path


class Copier(Compiler):
    """Copies its input with the program `copier` of a folder."""

    name = "copier"
    folders = "a folder with the program `copier`"

    def locate(self, root: Path) -> Path | None:
        program = root / "copier"
        return program if program.is_file() else None

    def describe(self, program: Path) -> Description:
        return Description("1.0", None, None, Capabilities())

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation:
        return Invocation(())


def test_a_family_with_three_methods_compiles_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(registry._CLASSES, "copier", f"{__name__}:Copier")
    program = tmp_path / "tools" / "copier"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncp "$1" "$3"\n')
    program.chmod(0o755)
    (tmp_path / "program.txt").write_text("text\n")
    recipe = tmp_path / "copy.yaml"
    recipe.write_text("name: copy\ncompiler: copier\ninput: program.txt\ntarget: {backend: none}\n")
    done = CliRunner().invoke(app, ["run", str(recipe), "-t", f"path:{program.parent}", "--format", "json"])
    assert done.exit_code == 0, done.output
    [result] = json.loads(done.stdout)["results"]
    assert (result["case"], result["status"]) == ("copy", "passed")
