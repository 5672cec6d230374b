"""The source files of a pass, at the failing commit of a clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import History
from triage.attribute.excerpt import source_files
from triage.git_history import Repository
from triage.mlir.ir_reader import PassName

BESIDE = {"TilePass": ("lib/Config.cpp", "lib/Gone.cpp")}


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Repository, str]:
    files: dict[str, str | bytes] = {
        "lib/Tile.cpp": "namespace {\nstruct TilePass final : impl::TilePassBase<TilePass> {\n};\n}\n",
        "lib/Passes.h": "std::unique_ptr<Pass> createTilePass();  // makes a TilePass\n",
        "lib/Config.cpp": "int tiles = 4;\n",
    }
    history = History.begin(tmp_path / "compiler")
    first = history.commit("one", files)
    history.git("mv", "lib/Tile.cpp", "lib/Moved.cpp")
    history.commit("two")
    return Repository(history.path), first


def test_the_file_that_defines_the_pass_then_those_with_its_decisions(clone: tuple[Repository, str]) -> None:
    assert source_files(PassName("TilePass", "t-tile"), *clone, BESIDE) == ("lib/Tile.cpp", "lib/Config.cpp")


@pytest.mark.parametrize("name", ["Canonicalizer", "Tile", "Ti.ePass", "'pipeline'"])
def test_passes_of_dependencies_have_no_file(name: str, clone: tuple[Repository, str]) -> None:
    expected = ("lib/Tile.cpp",) if name == "Tile" else ()
    assert source_files(PassName(name), *clone, {}) == expected
