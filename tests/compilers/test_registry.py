"""Compiler families are known to their packages and the registry only; a minimal family needs few methods."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import triage
from triage.cli.app import app
from triage.compilers import registry
from triage.compilers.base import Compiler, Description
from triage.compilers.invocation import Invocation
from triage.compilers.registry import DEFAULT_FAMILY, Families, recipe_families
from triage.model.case import Case
from triage.model.revision import Capabilities, Toolchain

PACKAGE = Path(triage.__file__).parent


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_other_package_imports_a_family() -> None:
    families = [f"triage.compilers.{name}" for name in ("iree", "triton", "command")]
    packages = tuple(PACKAGE / "compilers" / name for name in ("iree", "triton", "command"))
    others = [path for path in PACKAGE.rglob("*.py") if not any(path.is_relative_to(package) for package in packages)]
    found = {f"{path}: {name}" for path in others for name in imports_of(path) if name.startswith(tuple(families))}
    assert found == set()


class Minimal(Compiler):
    name = "minimal"
    folders = "any folder"

    def locate(self, root: Path) -> Path | None:
        return root

    def describe(self, program: Path) -> Description:
        return Description("1.0", None, None, Capabilities())

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation:
        return Invocation(("-c",))


WORDS = re.compile(r"(?i)\biree(?!-triage)|\btriton\b|vmfb|num_(?:stages|warps)")
# Still to move into the families. Nothing may be added.
NAMED_TODAY = {
    "bisect/prior.py",
    "execution/prober.py",
    "reduce/frontends/case_settings.py",
    "reduce/frontends/mlir/document.py",
}


def test_no_other_package_names_a_family() -> None:
    """Help texts and examples of keys may; `cli` has the help."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(("compilers/", "cli/")):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Expr, ast.keyword))]
        docs = [node.value for node in nodes if isinstance(node, ast.Expr) or node.arg in ("examples", "description")]
        free = {inner for node in docs for inner in ast.walk(node)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found |= {place for node in texts if node not in free and WORDS.search(node.value)}
    assert found <= NAMED_TODAY


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


def test_the_default_family_is_the_first_of_a_recipe() -> None:
    assert next(iter(recipe_families())) == DEFAULT_FAMILY == next(iter(Families()))
    assert [family.name for family in Families().values()] == list(Families())
