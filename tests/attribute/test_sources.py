"""The source files of a pass, at the failing commit of a clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from triage.attribute.excerpt import source_files
from triage.git_history import Repository
from triage.mlir.ir_reader import PassName

BESIDE = {"TilePass": ("lib/Config.cpp", "lib/Gone.cpp")}


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Repository, str]:
    folder = tmp_path / "compiler"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/Tile.cpp").write_text("namespace {\nstruct TilePass final : impl::TilePassBase<TilePass> {\n};\n}\n")
    (folder / "lib/Passes.h").write_text("std::unique_ptr<Pass> createTilePass();  // makes a TilePass\n")
    (folder / "lib/Old.cpp").write_text("class FoldOld\n    : public FoldOldBase<FoldOld> {};\n")
    (folder / "lib/Config.cpp").write_text("int tiles = 4;\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    repository = Repository(folder)
    first = repository.resolve("HEAD")
    (folder / "lib/Tile.cpp").rename(folder / "lib/Moved.cpp")
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    subprocess.run(["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "two"], check=True)
    return repository, first


def test_the_file_that_defines_the_pass_then_those_with_its_decisions(clone: tuple[Repository, str]) -> None:
    assert source_files(PassName("TilePass", "t-tile"), *clone, BESIDE) == ("lib/Tile.cpp", "lib/Config.cpp")


@pytest.mark.parametrize("name", ["Canonicalizer", "Tile", "Ti.ePass", "'pipeline'"])
def test_passes_of_dependencies_have_no_file(name: str, clone: tuple[Repository, str]) -> None:
    expected = ("lib/Tile.cpp",) if name == "Tile" else ()
    assert source_files(PassName(name), *clone, {}) == expected
