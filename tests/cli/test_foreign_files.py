"""Files that others write: a link to a private file never prints its content, and a
pipe, a device or an endless file never holds a command up.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.git_history.history import History

SECRET = "s3cret-word"
RECIPE = """name: p
compiler: iree
input: input.mlir
target: {backend: llvm-cpu}
"""
SUITE = {
    "config_name": "cpu",
    "iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"],
    "iree_run_module_flags": [],
}
MODULE = "func.func @main() { return }\n"
ENDS = "-t 1.0.0 -b 1.0.0"
COMMITS = "--good HEAD~1 --bad HEAD"


@dataclass(frozen=True)
class Reader:
    """A command that reads a file of somebody else's folder."""

    file: str
    """The file, in the folder."""
    words: tuple[str, ...]
    """The command, whose current folder is the parent of `folder`."""


READERS = {
    "a recipe": Reader("recipe.yaml", ("run", "folder/recipe.yaml", "-t", "1.0.0")),
    "a folder of recipes": Reader("recipe.yaml", ("run", "folder", "-t", "1.0.0")),
    "a checked recipe": Reader("recipe.yaml", ("recipe", "validate", "folder")),
    "listed recipes": Reader("recipe.yaml", ("recipe", "list", "folder")),
    "a bisect": Reader("recipe.yaml", ("bisect", "folder/recipe.yaml")),
    "an explained recipe": Reader("recipe.yaml", ("why", "folder/recipe.yaml")),
    "expectations": Reader("recipe.yaml", ("expect", "update", "folder/recipe.yaml")),
    "listed failures": Reader(
        "known.expect.yaml", ("recipe", "validate", "folder/k.yaml")
    ),
    "a flag file": Reader("flags.txt", ("recipe", "validate", "folder/f.yaml")),
    "rules": Reader("own.rules", ("recipe", "validate", "folder/c.yaml")),
    "rules of a log": Reader(
        "own.rules", ("classify", "--rules", "folder/own.rules", "log")
    ),
    "a reproducer": Reader("reproducer.json", ("replay", "folder")),
    "its recipe": Reader("recipe.yaml", ("replay", "folder")),
    "many reproducers": Reader("reproducer.json", ("replay", ".")),
    "a night": Reader("nightly.json", ("issues", "sync", "folder", "--repo", "a/b")),
    "shards": Reader("nightly.json", ("nightly", "merge", "folder", "--out", "out")),
    "a site": Reader("nightly.json", ("nights", "show", "folder/nightly.json")),
    "a config": Reader(
        "config.json",
        tuple(f"nightly folder/suite --suite-config folder/config.json {ENDS}".split()),
    ),
    "a test of a suite": Reader(
        "suite/one/run_module_io_flags.txt",
        tuple(f"nightly folder/suite --suite-config folder/config.json {ENDS}".split()),
    ),
    "a project": Reader(
        "triage.yaml",
        tuple(f"bisect folder/recipe.yaml --repo folder --build {COMMITS}".split()),
    ),
}
GIT_FILES = """
    HEAD config packed-refs shallow commondir info/grafts objects/info/alternates
    refs/heads/main config.worktree info/attributes index
"""
for _name in GIT_FILES.split():
    _words = f"bisect folder/recipe.yaml --repo folder {COMMITS}"
    READERS[f"git: {_name}"] = Reader(f".git/{_name}", tuple(_words.split()))

# These are not read at all, or other refs are.
ANY_FILE = ("git: index", "git: info/attributes", "git: config.worktree")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with somebody else's folder, in which all is as it should be."""
    places = tmp_path_factory.mktemp("places")
    folder = places / "folder"
    history = History.begin(folder)
    for number in range(2):
        history.commit(f"change {number}", {"main.c": f"{number}\n"})
    test = folder / "suite" / "one"
    test.mkdir(parents=True)
    (test / "model.mlir").write_text(MODULE)
    (test / "run_module_io_flags.txt").write_text("--input=4xf32=1\n")
    bad = {"name": "1.0.0", "commit": None}
    files = {
        "input.mlir": MODULE,
        "recipe.yaml": RECIPE,
        "k.yaml": RECIPE + "expect: known.expect.yaml\n",
        "known.expect.yaml": "p: [{failure: timeout}]\n",
        "f.yaml": RECIPE + "run: {flagfile: flags.txt}\n",
        "flags.txt": "--input=4xf32=1\n",
        "c.yaml": "name: c\ncompiler: command\npackage: six\ncommand: [cat, '{input}']\n"
        "input: input.mlir\nrules: own.rules\n",
        "own.rules": "classes: []\n",
        "reproducer.json": json.dumps({"case": "p", "signature": "s", "bad": bad}),
        "nightly.json": "{}",
        "config.json": json.dumps(SUITE),
        "triage.yaml": "name: own\ncompiler: iree\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    project = "name: own\ncompiler: iree\nbuild: {commands: [false]}\n"
    (places / "triage.yaml").write_text(project)
    (places / "log").write_text("error: failed\n")
    (places / "private").mkdir()
    (places / "private" / "key").write_text(f"{SECRET}: [{SECRET}\n")
    return places


@pytest.fixture
def folder(
    places: Path, workplace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    shutil.copytree(places, workplace, dirs_exist_ok=True)
    return workplace / "folder"


def link(path: Path, target: Path | str) -> None:
    path.symlink_to(os.path.relpath(target, path.parent))


def link_to_link(path: Path, private: Path) -> None:
    (path.parent / "other").symlink_to(private)
    path.symlink_to("other")


def link_to_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to("pipe")


def endless(path: Path, _: Path) -> None:
    with path.open("w") as file:
        file.truncate(1 << 42)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a link out": link,
    "an absolute link": lambda path, private: path.symlink_to(private),
    "a link to a link": link_to_link,
    "a pipe": lambda path, _: os.mkfifo(path),
    "a link to a pipe": link_to_pipe,
    "a device": lambda path, _: path.symlink_to("/dev/zero"),
    "an endless file": endless,
    "a folder": lambda path, _: path.mkdir(),
    "a circle": lambda path, _: path.symlink_to(path.name),
}


def sampled() -> Iterator[object]:
    """Yield every reader with every kind; all but three kinds of each are slow."""
    for number, reader in enumerate(READERS):
        for place, kind in enumerate(KINDS):
            is_slow = (place - number) % len(KINDS) >= 3
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(reader, kind, marks=marks)


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize(("reader", "kind"), [*sampled()])
def test_a_file_of_somebody_else_is_read_as_a_file_or_not_at_all(
    triage: Triage, workplace: Path, folder: Path, reader: str, kind: str
) -> None:
    path = folder / READERS[reader].file
    path.unlink(missing_ok=True)
    KINDS[kind](path, workplace / "private" / "key")
    done = triage(*READERS[reader].words)
    printed = done.stdout + done.stderr
    assert SECRET not in printed
    assert "Traceback" not in printed
    if reader in ANY_FILE or (reader, kind) == ("rules of a log", "a folder"):
        return
    assert done.returncode in (2, 3, 4), printed
