"""Changed defaults and pipelines, read from the diffs of real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git_history.history import ENV, History
from triage.bisect.changed_defaults import ChangedDefault, changed_defaults
from triage.bisect.pass_evidence import pipeline_commits
from triage.git_history import Repository

OPTION = """
static llvm::cl::opt<bool> clFuse(
    "lab-fuse-more", llvm::cl::desc("Fuse more."),
    llvm::cl::init({}));
static llvm::cl::opt<int> clTile("lab-tile-size", llvm::cl::init({}));
"""
BINDER = """void Options::bind(Binder &binder) {
  binder.opt<bool>(
      "lab-data-tiling", dataTiling, {});
}
"""


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    return History.begin(tmp_path / "repo")


def options(fuse: str, tile: str) -> dict[str, str | bytes]:
    return {"lib/Options.cpp": OPTION.replace("{}", fuse, 1).replace("{}", tile, 1)}


def test_a_changed_default_names_its_option_and_commit(history: History) -> None:
    good = history.commit("Begin", options("false", "64"))
    flipped = history.commit("Fuse more by default", options("true", "64"))
    history.commit("Describe it", {"README.md": "cl::init(false)"})
    bad = history.commit("Use larger tiles", options("true", "256"))
    found = changed_defaults(Repository(history.path), good, bad)
    assert set(found) == {
        ChangedDefault("lab-fuse-more", "false", "true", flipped),
        ChangedDefault("lab-tile-size", "64", "256", bad),
    }


def test_a_default_that_is_changed_back_is_none(history: History) -> None:
    good = history.commit("Begin", options("false", "64"))
    history.commit("Fuse more by default", options("true", "64"))
    bad = history.commit("Revert it", options("false", "64"))
    assert changed_defaults(Repository(history.path), good, bad) == ()


def test_a_new_option_that_is_true_was_false(history: History) -> None:
    good = history.commit("Begin", {"lib/Options.cpp": "\n"})
    bad = history.commit("Add options", options("true", "64"))
    assert changed_defaults(Repository(history.path), good, bad) == (ChangedDefault("lab-fuse-more", "false", "true", bad),)


def test_a_field_has_the_option_that_binds_it(history: History) -> None:
    header = "struct Options {\n  bool dataTiling = true;\n  int unbound = 3;\n};\n"
    good = history.commit("Begin", {"lib/Options.h": header, "lib/Options.cpp": BINDER})
    changed = header.replace("true", "false").replace("3", "4")
    bad = history.commit("Disable data tiling", {"lib/Options.h": changed})
    assert changed_defaults(Repository(history.path), good, bad) == (ChangedDefault("lab-data-tiling", "true", "false", bad),)


def test_a_pass_that_enters_a_pipeline_names_its_commit(history: History) -> None:
    good = history.commit("Begin", {"lib/Passes.cpp": "pm.addPass(createTilePass());\n", "lib/Pad.cpp": "\n"})
    history.commit("Write a pass", {"lib/Pad.cpp": "createPadOperandsPass()\n"})
    added = history.commit(
        "Use it", {"lib/Passes.cpp": "pm.addPass(createTilePass());\npm.addPass(createPadOperandsPass());\n"}
    )
    bad = history.commit("Change another", {"lib/Passes.cpp": "pm.addPass(createPadOperandsPass());\n"})
    repository = Repository(history.path)
    assert pipeline_commits(repository, ["PadOperandsPass"], good, bad) == (added,)
    assert pipeline_commits(repository, ["TilePass"], good, bad) == (bad,)
    assert pipeline_commits(repository, [], good, bad) == ()
