"""Which files are taken for recipes, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes

SMALL = "name: {name}\ninput: {models}/matmul.mlir\ntarget: {{backend: cuda}}\n"


@pytest.fixture
def write(folder):
    def write(path: str) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        name = path.lower().replace("/", "-").replace(".", "-").strip("-")
        file.write_text(SMALL.format(name=name, models=folder / "models"))

    return write


def names(*paths: str) -> list[str]:
    return [case.name for case in load_recipes([Path(path) for path in paths])]


def test_folders_are_searched_in_sorted_order_without_hidden_ones(write):
    for path in (
        "s/b.yaml",
        "s/a/z.yml",
        "s/a.yaml",
        "s/.git/x.yaml",
        "s/.hidden.yaml",
        "s/note.txt",
    ):
        write(path)
    assert names("s") == ["s-a-z-yml", "s-a-yaml", "s-b-yaml"]


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"name: a\0", "U+0000"),
        (b"# fine\nname: \xff\n", "line 2 is not UTF-8"),
        ("name: a".encode("utf-16"), "line 1 is not UTF-8"),
        (b"", "triage recipe new"),
        (b"# only a comment\n", "triage recipe new"),
    ],
)
def test_files_without_a_recipe(told, data, fragment):
    (problem,) = told(data)
    assert fragment in problem
