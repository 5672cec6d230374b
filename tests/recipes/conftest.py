"""Recipes written into an empty folder that holds some inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes
from triage.model.case import Case
from triage.model.errors import BadFiles

INPUTS = "matmul.mlir matmul_f16.mlir matmul_f32.mlir conv.onnx make.py old.mlirbc"
BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"

Told = Callable[..., list[str]]
Loaded = Callable[[str], tuple[Case, ...]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test, with inputs in models/."""
    models = tmp_path / "models"
    models.mkdir()
    for name in INPUTS.split():
        (models / name).write_text("// empty\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loaded(folder: Path) -> Loaded:
    """Cases of one recipe text."""

    def load(text: str) -> tuple[Case, ...]:
        Path("r.yaml").write_text(text, encoding="utf-8")
        return load_recipes([Path("r.yaml")])

    return load


@pytest.fixture
def told(folder: Path) -> Told:
    """The problems of one recipe text, `line:column: message` each; those of another
    file begin with its name.
    """

    def load(text: str | bytes, failure_names: Collection[str] = ()) -> list[str]:
        Path("r.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(BadFiles) as raised:
            load_recipes([Path("r.yaml")], failure_names)
        problems = map(str, raised.value.problems)
        return [problem.removeprefix("r.yaml:").strip() for problem in problems]

    return load
