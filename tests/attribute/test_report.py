"""Attribution reports: text and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.letters import failure
from tests.git_history.history import History
from triage.attribute.excerpt import source_files
from triage.attribute.result import (
    Attribution,
    ComparisonResult,
    Difference,
    DivergingPass,
    Excerpt,
)
from triage.git_history.repository import Repository
from triage.model.json_form import as_json
from triage.model.pass_name import PassName
from triage.model.revision import Revision
from triage.report.attribution import attribution_document
from triage.report.formats import rendered

TILE = PassName("TilePass", "t-tile")
DIVERGING = Attribution(
    "case",
    Revision("3.2.0"),
    Revision("3.3.0"),
    ComparisonResult.DIVERGES,
    failure=failure("F"),
    failing=PassName("CheckPass"),
    function={"good": "kernel", "bad": "kernel"},
    persistent=DivergingPass(
        None,
        TILE,
        "kernel",
        (Difference("t.copy", "1", "3"),),
        (Difference("config.tiles", "[4]", "[8]"),),
        Excerpt(("t.call", "t.end"), ("t.other", "t.end")),
        ("lib/Tile.cpp",),
    ),
    other=DivergingPass(PassName("FusePass"), PassName("FusePass"), None),
    files=("lib/Tile.cpp",),
    notes=("a note",),
)


def text_of(found: Attribution) -> str:
    return rendered("text", found, attribution_document)


def test_the_text_has_the_answer_and_the_facts() -> None:
    text = text_of(DIVERGING)
    assert "not sure: 3.2.0 and 3.3.0 diverge after TilePass or after FusePass" in text
    for part in (
        "TilePass (t-tile)",
        "config.tiles: [4] -> [8]",
        "t.copy 1 -> 3",
        "FusePass",
        "lib/Tile.cpp",
        "a note",
    ):
        assert part in text
    assert "+ t.other" in text


def test_the_json_has_the_suspects() -> None:
    answer = as_json(DIVERGING)
    assert (answer["case"], answer["good"]["name"], answer["bad"]["name"]) == (
        "case",
        "3.2.0",
        "3.3.0",
    )
    assert (answer["status"], answer["failing_pass"], answer["first_phase"]) == (
        "parted",
        "CheckPass",
        None,
    )
    assert (answer["pass"]["name"], answer["pass"]["on"], answer["other"]["name"]) == (
        "TilePass",
        "bad",
        "FusePass",
    )
    assert (answer["suspect_passes"], answer["suspect_files"]) == (
        ["TilePass", "FusePass"],
        ["lib/Tile.cpp"],
    )
    assert answer["function"] == {"good": "kernel", "bad": "kernel"}


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


def test_the_file_that_defines_the_pass_then_those_with_its_decisions(
    clone: tuple[Repository, str],
) -> None:
    assert source_files(PassName("TilePass", "t-tile"), *clone, BESIDE) == (
        "lib/Tile.cpp",
        "lib/Config.cpp",
    )


@pytest.mark.parametrize("name", ["Canonicalizer", "Tile", "Ti.ePass"])
def test_passes_of_dependencies_have_no_file(
    name: str, clone: tuple[Repository, str]
) -> None:
    expected = ("lib/Tile.cpp",) if name == "Tile" else ()
    assert source_files(PassName(name), *clone, {}) == expected
