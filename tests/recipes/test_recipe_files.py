"""Which files are taken for recipes, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes
from triage.model.errors import BadFiles

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


def sentence(*paths: str) -> str:
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path(path) for path in paths])
    return str(raised.value)


def test_folders_are_searched_in_sorted_order_without_hidden_ones(write):
    for path in ("s/b.yaml", "s/a/z.yml", "s/a.yaml", "s/.git/x.yaml", "s/.hidden.yaml", "s/note.txt"):
        write(path)
    assert names("s") == ["s-a-z-yml", "s-a-yaml", "s-b-yaml"]


def test_paths_keep_their_order_and_a_file_named_twice_counts_once(write):
    for path in ("s/a.yaml", "s/b.yaml"):
        write(path)
    assert names("s/b.yaml", "s", "s/../s/a.yaml") == ["s-b-yaml", "s-a-yaml"]


def test_a_hidden_folder_that_is_named_is_searched(write):
    write(".mine/a.yaml")
    assert names(".mine") == ["mine-a-yaml"]


def test_linked_folders_are_followed_once(write):
    write("s/a.yaml")
    write("elsewhere/c.yaml")
    Path("s/loop").symlink_to("..", target_is_directory=True)
    Path("s/more").symlink_to("../elsewhere", target_is_directory=True)
    assert sorted(names("s")) == ["elsewhere-c-yaml", "s-a-yaml"]


def test_a_folder_without_recipes_says_so(folder):
    assert sentence("models").startswith("models: ")
    assert "*.yaml or *.yml" in sentence("models")


def test_a_missing_path_suggests_a_neighbour(write):
    write("suite/a.yaml")
    assert 'did you mean "suite"?' in sentence("suit")
    assert 'did you mean "a.yaml"?' in sentence("suite/b.yaml")
    assert "did you mean" not in sentence("nowhere/at/all")


def test_links_to_nothing_and_to_themselves(write):
    write("s/a.yaml")
    Path("s/loop.yaml").symlink_to("loop.yaml")
    Path("s/gone.yaml").symlink_to("nothing.yaml")
    gone, loop = sentence("s").splitlines()
    assert gone.startswith("s/gone.yaml: ")
    assert '"nothing.yaml"' in gone
    assert loop.startswith("s/loop.yaml: ")


def test_a_folder_without_permission(write, monkeypatch):
    write("s/a.yaml")
    write("s/closed/b.yaml")
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # chmod stops nobody who runs the tests as root
    assert sentence("s").startswith("s/closed: no permission")


def test_a_file_that_is_too_big_is_not_read(folder, monkeypatch):
    with Path("big.yaml").open("wb") as file:
        file.truncate(200 << 20)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("was read"))
    assert "200.0 MiB" in sentence("big.yaml")


def test_inputs_and_devices_are_not_recipes(folder):
    assert "triage recipe new matmul.yaml --input models/matmul.mlir" in sentence("models/matmul.mlir")
    assert "neither a file nor a folder" in sentence(os.devnull)


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"name: a\0", "NUL"),
        (b"# fine\nname: \xff\n", "line 2 is not UTF-8"),
        ("name: a".encode("utf-16"), "NUL"),
        (b"", "triage recipe new"),
        (b"# only a comment\n", "triage recipe new"),
    ],
)
def test_files_without_a_recipe(told, data, fragment):
    (problem,) = told(data)
    assert fragment in problem
