"""Revisions in files that others wrote: reproducers, recipes, answers. None of them
starts a program of this machine without a word of the user.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import compiler
from tests.programs import write_program
from triage.model.errors import BadInput
from triage.toolchains.registry import recorded_rev

RELEASES = 2
SHA = "1a2b3c4d5e" * 4
RECIPE = """name: p
compiler: iree
input: input.mlir
target: {backend: llvm-cpu}
"""
RUN = """run:
  inputs: ["4xf32=1"]
  reference: {{toolchain: "{rev}"}}
"""
# Ways to name a program, a build or a folder.
NAMES = (
    "path:stranger",
    "path:stranger/tools/iree-compile",
    "path:{folder}/stranger",
    "path:./stranger",
    " path:stranger",
    "iree:path:stranger",
    "stranger",
    "./stranger",
    "{folder}/stranger",
    "commit:" + SHA,
    SHA[:10],
    "command:stranger",
    "3.0.0 @ file://{folder}/stranger",
)


@pytest.fixture
def mark(workplace: Path) -> Path:
    """What the stranger's program writes when it compiles."""
    mark = workplace / "mark"
    for folder in (workplace, workplace / "folder"):
        program = write_program(folder / "stranger" / "tools" / "iree-compile", "")
        program.write_bytes(compiler(1, "9.9.9", str(mark)))
    return mark


@pytest.fixture
def folder(workplace: Path) -> Path:
    folder = workplace / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "input.mlir").write_text("func.func @main() { return }\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def record(folder: Path, name: str, commit: str | None = None) -> None:
    bad = {"name": name, "commit": commit}
    text = json.dumps({"case": "p", "signature": "s", "bad": bad})
    (folder / "reproducer.json").write_text(text)


@pytest.mark.usefixtures("home", "released")
@pytest.mark.parametrize("name", NAMES)
def test_a_reproducer_starts_no_program_that_it_names(
    triage: Triage, workplace: Path, folder: Path, mark: Path, name: str
) -> None:
    record(folder, name.format(folder=folder), SHA)
    for cwd in (workplace, folder):
        done = triage("replay", folder, cwd=cwd)
        assert done.returncode == 2, done.stdout
        assert "reproducer.json" in done.stderr
        assert "-t" in done.stderr
        assert not mark.exists()


@pytest.mark.usefixtures("home", "released")
def test_the_users_word_starts_it(
    triage: Triage, workplace: Path, folder: Path, mark: Path
) -> None:
    record(folder, "path:stranger")
    triage("replay", folder, "-t", "path:stranger", cwd=workplace)
    assert mark.exists()


@pytest.mark.usefixtures("home", "released")
@pytest.mark.parametrize("name", [name for name in NAMES if " " not in name])
def test_a_recipe_starts_no_program_that_its_reference_names(
    triage: Triage, workplace: Path, folder: Path, mark: Path, name: str
) -> None:
    reference = RUN.format(rev=name.format(folder=folder))
    (folder / "recipe.yaml").write_text(RECIPE + reference)
    record(folder, "1.1.0")
    for words in (
        ["replay", folder],
        ["replay", folder, "-t", "1.1.0"],
        ["run", folder / "recipe.yaml", "-t", "1.1.0"],
    ):
        done = triage(*words, cwd=folder)
        assert done.returncode in (1, 3, 4), done.stdout + done.stderr
        assert not mark.exists()


@pytest.mark.usefixtures("home", "released")
def test_a_text_starts_no_program_that_it_names(
    triage: Triage, workplace: Path, mark: Path
) -> None:
    text = "\n".join(f"Fails on iree {name} since {name}." for name in NAMES)
    program = "```mlir\nfunc.func @main() { return }\n```\n"
    (workplace / "issue.md").write_text(f"{text}\n\n{program}")
    triage("why", "issue.md", "--budget", "5s")
    assert not mark.exists()


def test_a_compiler_may_report_an_abbreviated_commit() -> None:
    assert recorded_rev("b6a2c9f", "b6a2c9f01e") == "commit:b6a2c9f01e"
    for name, commit in (("b6a2c9f", None), ("b6a2c9f", "1" * 40), ("b6", "b6")):
        with pytest.raises(BadInput):
            recorded_rev(name, commit)
