"""A clone may come from anybody: nothing that its settings, hooks and attributes name is
started, whatever is asked about its commits.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bisect.tiny_compiler import answered, between
from tests.conftest import Triage
from tests.git_history.history import History
from tests.programs import write_program
from triage.git_history import repository

COMPILER = """import sys

text = open(sys.argv[1]).read()
{change}
"""
BROKEN = 'sys.exit("tinyc: internal error: lost a symbol")'
RECIPE = """name: p
compiler: command
command: [python3, "{toolchain}/tinyc.py", "{input}"]
input: p.txt
"""
PROJECT = """name: tinyc
compiler: command
build: {commands: 'cp tinyc.py "$TRIAGE_OUT"', submodules: true}
"""
# Every setting of git that names a program or another place to look for one.
SETTINGS = """
    core.fsmonitor core.pager core.editor core.sshCommand core.askPass core.gitProxy
    core.alternateRefsCommand pager.log pager.grep credential.helper diff.external
    diff.evil.command diff.evil.textconv filter.evil.clean filter.evil.smudge
    filter.evil.process merge.evil.driver gpg.program gpg.openpgp.program
    gpg.ssh.program uploadpack.packObjectsHook remote.origin.uploadpack
    submodule.part.update interactive.diffFilter tar.tar.command sequence.editor
    hook.evil.command alias.log alias.checkout
"""
HOOKS = """
    post-checkout post-index-change reference-transaction pre-auto-gc
    fsmonitor-watchman post-merge
"""


@dataclass
class HostileClone:
    history: History
    mark: Path
    words: list[object]
    """A recipe, and options that name two of its commits."""

    def started(self) -> str:
        """What the clone started, a line each."""
        return self.mark.read_text() if self.mark.exists() else ""


def make_hostile(git_dir: Path, program: Path) -> None:
    hooks, attributes = program.parent / "hooks", program.parent / "attributes"
    others = {
        "core.hooksPath": hooks,
        "core.attributesFile": attributes,
        "log.showSignature": "true",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "submodule.recurse": "true",
        "filter.evil.required": "true",
        "remote.origin.url": f"ext::{program} remote",
        "hook.evil.event": "post-checkout",
        "include.path": program.parent / "included",
    }
    for name in SETTINGS.split():
        value = f"!{program}" if name.endswith((".update", ".helper")) else program
        others[name] = f"{value} {name}"
    with (git_dir / "config").open("a") as config:
        for name, value in others.items():
            section, _, key = name.rpartition(".")
            kind, _, part = section.partition(".")
            title = f'{kind} "{part}"' if part else kind
            config.write(f'[{title}]\n\t{key} = "{value}"\n')
    (git_dir / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    attributes.write_text("* filter=evil diff=evil\n")
    for folder in (git_dir / "hooks", hooks):
        folder.mkdir(exist_ok=True)
        for name in HOOKS.split():
            write_program(folder / name, f"#!/bin/sh\n{program} {name} >&2\n")


@pytest.fixture
def hostile(tmp_path: Path, workplace: Path, home: Path) -> HostileClone:
    mark, program = tmp_path / "mark", tmp_path / "evil" / "program"
    write_program(program, f'#!/bin/sh\necho "$0 $*" >> {mark}\nexit 1\n')
    included = f"[core]\n\tfsmonitor = {program} included\n"
    (program.parent / "included").write_text(included)
    part = History.begin(tmp_path / "part")
    part.commit("part", {"part.c": "int part;\n", ".gitattributes": "* filter=evil\n"})
    history = History.begin(tmp_path / "clone")
    history.git("submodule", "--quiet", "add", "--name", "part", str(part.path), "part")
    for number in range(6):
        files = {
            "tinyc.py": COMPILER.format(change=BROKEN if number > 2 else ""),
            "AllPasses.cpp": f"createFusionPass({number});\n",
            ".gitattributes": "* filter=evil diff=evil merge=evil\n",
        }
        history.commit(f"change {number}", files)
    signature = "\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END\n\n"
    signed = history.git("cat-file", "commit", "HEAD").replace("\n\n", signature, 1)
    words = ["hash-object", "-t", "commit", "-w", "--stdin"]
    last = history.git(*words, data=signed.encode())
    history.git("reset", "--quiet", "--hard", last)
    for git_dir in (history.path / ".git", history.path / ".git/modules/part"):
        make_hostile(git_dir, program)
    mark.unlink(missing_ok=True)
    (workplace / "triage.yaml").write_text(PROJECT)
    (tmp_path / "p.txt").write_text("program\n")
    recipe = tmp_path / "p.yaml"
    recipe.write_text(RECIPE)
    first = history.git("rev-parse", "HEAD~5")
    return HostileClone(history, mark, [recipe, *between(history.path, first, last)])


def test_the_settings_start_programs_where_git_is_asked_plainly(
    hostile: HostileClone,
) -> None:
    for words in (["log", "-p", "--ext-diff"], ["status"], ["archive", "HEAD"]):
        hostile.mark.unlink(missing_ok=True)
        with suppress(AssertionError):
            hostile.history.git(*words)
        assert hostile.started(), words


def test_ranking_and_bisecting_its_commits_starts_nothing_of_it(
    hostile: HostileClone, triage: Triage, tmp_path: Path
) -> None:
    log = tmp_path / "failed.log"
    log.write_text("tinyc: error: 'func.func' op failed to legalize the symbol\n")
    ranked = triage("suspects", log, *hostile.words[1:], "--format", "json")
    assert answered(ranked)["suspects"]
    assert hostile.started() == ""
    done = triage("bisect", *hostile.words, "--format", "json")
    assert answered(done)["after"]["subject"] == "change 3"
    assert hostile.started() == ""


def test_nothing_of_it_starts_where_it_is_the_current_folder(
    hostile: HostileClone, triage: Triage
) -> None:
    clone = hostile.history.path
    (clone / "triage.yaml").write_text(PROJECT)
    for command in ("suspects", "bisect"):
        triage(command, *hostile.words, cwd=clone)
        assert hostile.started() == ""
    asked = ["bisect", *hostile.words, "--build", "--format", "json"]
    assert answered(triage(*asked, cwd=clone))["after"]["subject"] == "change 3"
    assert hostile.started() == ""


def test_what_a_partial_clone_lacks_is_not_fetched_by_its_programs(
    hostile: HostileClone, triage: Triage
) -> None:
    history = hostile.history
    history.git("config", "core.repositoryFormatVersion", "1")
    history.git("config", "extensions.partialClone", "origin")
    history.git("config", "remote.origin.promisor", "true")
    blob = history.git("rev-parse", "HEAD~2:tinyc.py")
    (history.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    hostile.mark.unlink(missing_ok=True)
    for command in ("suspects", "bisect"):
        triage(command, *hostile.words)
        assert hostile.started() == ""


def test_a_pipe_among_its_files_does_not_hang(
    hostile: HostileClone, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "_FIRST_ANSWER", 1.0)
    config = hostile.history.path / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    done = triage("suspects", *hostile.words)
    assert done.returncode in (2, 4)
    assert "git" in done.stderr


@pytest.mark.parametrize(
    "kind",
    ["untracked", "into a submodule", "out of the clone", "work tree"],
)
def test_its_project_file_runs_only_if_the_user_says_so(
    hostile: HostileClone, triage: Triage, tmp_path: Path, kind: str
) -> None:
    history, built = hostile.history, tmp_path / "built"
    steps = f"name: tinyc\ncompiler: command\nbuild: {{commands: 'touch {built}'}}\n"
    project = history.path / "triage.yaml"
    if kind == "into a submodule":
        history.write("part/steps.yaml", steps)
        project.symlink_to("part/steps.yaml")
    elif kind == "out of the clone":
        (tmp_path / "steps.yaml").write_text(steps)
        project.symlink_to("../steps.yaml")
    else:
        project.write_text(steps)
    if kind == "work tree":
        history.git("config", "core.worktree", str(tmp_path))
    hostile.mark.unlink(missing_ok=True)
    asked = ["bisect", *hostile.words, "--repo", "."]
    done = triage(*asked, cwd=history.path)
    assert done.returncode == 2  # no project is left
    assert "triage.yaml is not used" in done.stderr
    assert "--build" in done.stderr
    assert not built.exists()
    if kind == "untracked":
        triage(*asked, "--build", cwd=history.path)
        assert built.exists()
    assert hostile.started() == ""


SECRET = "https://me:secret@127.0.0.1:9/{}.git?token=secret"
MODULES = f"""[submodule "lib"]
\tpath = third_party/lib
\turl = {SECRET.format("lib")}
"""


def test_submodules_are_fetched_only_where_the_build_needs_them(
    triage: Triage, tmp_path: Path, home: Path
) -> None:
    history = History.begin(tmp_path / "clone")
    history.git("remote", "add", "origin", SECRET.format("tinyc"))
    history.commit("first", {"tinyc.py": COMPILER.format(change="")})
    gitlink = f"160000,{history.head()},third_party/lib"
    history.git("update-index", "--add", "--cacheinfo", gitlink)
    first = history.git("rev-parse", "HEAD")
    (history.path / "third_party/lib").mkdir(parents=True)
    last = history.commit(
        "last", {"tinyc.py": COMPILER.format(change=BROKEN), ".gitmodules": MODULES}
    )
    recipe, project = tmp_path / "p.yaml", tmp_path / "work" / "triage.yaml"
    recipe.write_text(RECIPE)
    (tmp_path / "p.txt").write_text("program\n")
    asked = ["bisect", recipe, *between(history.path, first, last)]
    project.write_text(PROJECT.replace(", submodules: true", ""))
    found = answered(triage(*asked, "--format", "json"))
    assert found["after"]["subject"] == "last"
    project.write_text(PROJECT)
    done = triage(*asked)
    assert done.returncode == 4
    printed = done.stdout + done.stderr
    assert "git submodule failed" in printed
    assert "secret" not in printed
    logs = list((home / "logs").iterdir())
    assert any("127.0.0.1:9/lib.git" in path.read_text() for path in logs)
    for path in logs:
        assert path.stat().st_mode & 0o777 == 0o600
        assert "secret" not in path.read_text()
