"""A clone may come from anybody: nothing that its settings, hooks and attributes name is
started, whatever is asked about its commits.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.tiny_compiler import RECIPE, WITH_SUBMODULES, between, compiler
from tests.conftest import Triage
from tests.git_history.history import History
from tests.programs import write_program

SETTINGS = Path(__file__).with_name("hostile.gitconfig").read_text()
HOOKS = """
    post-checkout post-index-change reference-transaction pre-auto-gc
    fsmonitor-watchman post-merge
"""
ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


@dataclass
class HostileClone:
    history: History
    mark: Path
    triage: Triage
    words: list[object]
    """A recipe, and options that name two of its commits."""

    def started(self) -> str:
        """Return what the clone started since the last call, a line each."""
        text = self.mark.read_text() if self.mark.exists() else ""
        self.mark.unlink(missing_ok=True)
        return text

    def run(self, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command, which starts nothing of the clone."""
        self.started()
        done = self.triage(*words, "--format", "json", **options)
        assert not self.started()
        return done


def make_hostile(git_dir: Path, evil: Path) -> None:
    with (git_dir / "config").open("a") as config:
        config.write(SETTINGS.replace("EVIL", str(evil)))
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    for folder in (git_dir / "hooks", evil / "hooks"):
        for name in HOOKS.split():
            write_program(folder / name, f"#!/bin/sh\n{evil}/program {name} >&2\n")


@pytest.fixture
def hostile(
    tmp_path: Path, workplace: Path, home: Path, triage: Triage
) -> HostileClone:
    mark, evil = tmp_path / "mark", tmp_path / "evil"
    program = f'#!/bin/sh\necho "$0 $*" >> {mark}\nexit 1\n'
    write_program(evil / "program", program)
    (evil / "included").write_text(f"[core]\n\tfsmonitor = {evil}/program included\n")
    (evil / "attributes").write_text(ATTRIBUTES)
    part = History.begin(tmp_path / "part")
    part.commit("part", {"part.c": "int part;\n", ".gitattributes": ATTRIBUTES})
    history = History.begin(tmp_path / "clone")
    history.git("submodule --quiet add --name part", str(part.path), "part")
    for number, letter in enumerate("PPPFFF"):
        files: dict[str, str | bytes] = {
            "tinyc.py": compiler(letter, number),
            ".gitattributes": ATTRIBUTES,
        }
        history.commit(f"change {number}", files)
    signature = "\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END\n\n"
    signed = history.git("cat-file commit HEAD").replace("\n\n", signature, 1)
    store = ["hash-object", "-t", "commit", "-w", "--stdin"]
    last = history.git(*store, data=signed.encode())
    history.git("reset --quiet --hard", last)
    for git_dir in (history.path / ".git", history.path / ".git/modules/part"):
        make_hostile(git_dir, evil)
    (workplace / "triage.yaml").write_text(WITH_SUBMODULES)
    (tmp_path / "p.c").write_text("program\n")
    recipe = tmp_path / "p.yaml"
    recipe.write_text(RECIPE)
    first = history.git("rev-parse HEAD~5")
    words = [recipe, *between(history.path, first, last)]
    return HostileClone(history, mark, triage, words)


def test_the_settings_start_programs_where_git_is_asked_plainly(
    hostile: HostileClone,
) -> None:
    hostile.started()
    for line in ("log -p --ext-diff", "status", "archive HEAD"):
        with suppress(AssertionError):
            hostile.history.git(*line.split())
        assert hostile.started(), line


def test_ranking_and_bisecting_its_commits_starts_nothing_of_it(
    hostile: HostileClone, tmp_path: Path
) -> None:
    log, clone = tmp_path / "failed.txt", hostile.history.path
    log.write_text("tinyc: error: 'func.func' op failed to legalize the symbol\n")
    ranked = hostile.run("suspects", log, *hostile.words[1:])
    assert json.loads(ranked.stdout)["suspects"]
    bisected = hostile.run("bisect", *hostile.words)
    # where it is the current folder
    (clone / "triage.yaml").write_text(WITH_SUBMODULES)
    for command in ("suspects", "bisect"):
        hostile.run(command, *hostile.words, cwd=clone)
    built = hostile.run("bisect", *hostile.words, "--build", cwd=clone)
    for done in (bisected, built):
        assert json.loads(done.stdout)["after"]["subject"] == "change 3"


def test_what_a_partial_clone_lacks_is_not_fetched_by_its_programs(
    hostile: HostileClone,
) -> None:
    history = hostile.history
    with (history.path / ".git" / "config").open("a") as config:
        config.write("[core]\n\trepositoryFormatVersion = 1\n")
        config.write("[extensions]\n\tpartialClone = origin\n")
        config.write('[remote "origin"]\n\tpromisor = true\n')
    blob = history.git("rev-parse HEAD~2:tinyc.py")
    (history.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for command in ("suspects", "bisect"):
        hostile.run(command, *hostile.words)


@pytest.mark.parametrize(
    "kind", ["untracked", "into a submodule", "out of the clone", "work tree"]
)
def test_its_project_file_runs_only_if_the_user_says_so(
    hostile: HostileClone, tmp_path: Path, kind: str
) -> None:
    clone, built = hostile.history.path, tmp_path / "built"
    steps = f"name: tinyc\ncompiler: command\nbuild: {{commands: 'touch {built}'}}\n"
    target = {"into a submodule": "part/s.yaml", "out of the clone": "../s.yaml"}
    if kind in target:
        (clone / target[kind]).write_text(steps)
        (clone / "triage.yaml").symlink_to(target[kind])
    else:
        (clone / "triage.yaml").write_text(steps)
    if kind == "work tree":
        hostile.history.git("config core.worktree", str(tmp_path))
    words = ["bisect", *hostile.words, "--repo", "."]
    done = hostile.run(*words, cwd=clone)
    assert done.returncode == 2  # no project is left
    assert "triage.yaml is not used" in done.stderr
    assert "--build" in done.stderr
    assert not built.exists()
    if kind == "untracked":
        hostile.run(*words, "--build", cwd=clone)
        assert built.exists()
