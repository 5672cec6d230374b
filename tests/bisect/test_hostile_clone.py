"""A clone may come from anybody: nothing that its settings, hooks and attributes name is
started, whatever is asked about its commits.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bisect.tiny_compiler import COPIED, RECIPE, between, compiler
from tests.conftest import Asked, Triage
from tests.git_history.history import History
from tests.programs import write_program
from triage.git_history import repository

PROJECT = COPIED.replace("TRIAGE_OUT\"'", "TRIAGE_OUT\"', submodules: true")
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
ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


@dataclass
class HostileClone:
    history: History
    mark: Path
    words: list[object]
    """A recipe, and options that name two of its commits."""

    def started(self) -> str:
        """Return what the clone started since the last call, a line each."""
        text = self.mark.read_text() if self.mark.exists() else ""
        self.mark.unlink(missing_ok=True)
        return text


def make_hostile(git_dir: Path, program: Path) -> None:
    hooks, attributes = program.parent / "hooks", program.parent / "attributes"
    others: dict[str, object] = {
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
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    attributes.write_text(ATTRIBUTES)
    for folder in (git_dir / "hooks", hooks):
        for name in HOOKS.split():
            write_program(folder / name, f"#!/bin/sh\n{program} {name} >&2\n")


@pytest.fixture
def hostile(tmp_path: Path, workplace: Path, home: Path) -> HostileClone:
    mark, program = tmp_path / "mark", tmp_path / "evil" / "program"
    write_program(program, f'#!/bin/sh\necho "$0 $*" >> {mark}\nexit 1\n')
    included = f"[core]\n\tfsmonitor = {program} included\n"
    (program.parent / "included").write_text(included)
    part = History.begin(tmp_path / "part")
    part.commit("part", {"part.c": "int part;\n", ".gitattributes": ATTRIBUTES})
    history = History.begin(tmp_path / "clone")
    history.git("submodule", "--quiet", "add", "--name", "part", str(part.path), "part")
    for number, letter in enumerate("PPPFFF"):
        files: dict[str, str | bytes] = {
            "tinyc.py": compiler(letter, number),
            ".gitattributes": ATTRIBUTES,
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
    (tmp_path / "p.c").write_text("program\n")
    recipe = tmp_path / "p.yaml"
    recipe.write_text(RECIPE)
    first = history.git("rev-parse", "HEAD~5")
    return HostileClone(history, mark, [recipe, *between(history.path, first, last)])


def test_the_settings_start_programs_where_git_is_asked_plainly(
    hostile: HostileClone,
) -> None:
    for words in (["log", "-p", "--ext-diff"], ["status"], ["archive", "HEAD"]):
        with suppress(AssertionError):
            hostile.history.git(*words)
        assert hostile.started(), words


def test_ranking_and_bisecting_its_commits_starts_nothing_of_it(
    hostile: HostileClone, asked: Asked, triage: Triage, tmp_path: Path
) -> None:
    log, clone = tmp_path / "failed.log", hostile.history.path
    log.write_text("tinyc: error: 'func.func' op failed to legalize the symbol\n")
    assert asked("suspects", log, *hostile.words[1:])["suspects"]
    assert not hostile.started()
    bisected = asked("bisect", *hostile.words)
    assert not hostile.started()
    # where it is the current folder
    (clone / "triage.yaml").write_text(PROJECT)
    for command in ("suspects", "bisect"):
        triage(command, *hostile.words, cwd=clone)
        assert not hostile.started()
    built = asked("bisect", *hostile.words, "--build", cwd=clone)
    assert not hostile.started()
    for answer in (bisected, built):
        assert answer["after"]["subject"] == "change 3"


def test_what_a_partial_clone_lacks_is_not_fetched_by_its_programs(
    hostile: HostileClone, triage: Triage
) -> None:
    history = hostile.history
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
    ):
        history.git("config", name, value)
    blob = history.git("rev-parse", "HEAD~2:tinyc.py")
    (history.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    hostile.started()
    for command in ("suspects", "bisect"):
        triage(command, *hostile.words)
        assert not hostile.started()


def test_a_pipe_among_its_files_does_not_hang(
    hostile: HostileClone, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "_FIRST_TIMEOUT", 1.0)
    config = hostile.history.path / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    done = triage("suspects", *hostile.words)
    assert done.returncode in (2, 4)
    assert "git" in done.stderr


@pytest.mark.parametrize(
    "kind", ["untracked", "into a submodule", "out of the clone", "work tree"]
)
def test_its_project_file_runs_only_if_the_user_says_so(
    hostile: HostileClone, triage: Triage, tmp_path: Path, kind: str
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
        hostile.history.git("config", "core.worktree", str(tmp_path))
    hostile.started()
    words = ["bisect", *hostile.words, "--repo", "."]
    done = triage(*words, cwd=clone)
    assert done.returncode == 2  # no project is left
    assert "triage.yaml is not used" in done.stderr
    assert "--build" in done.stderr
    assert not built.exists()
    if kind == "untracked":
        triage(*words, "--build", cwd=clone)
        assert built.exists()
    assert not hostile.started()


SECRET = "https://me:secret@127.0.0.1:9/{}.git?token=secret"


def test_submodules_are_fetched_only_where_the_build_needs_them(
    asked: Asked, triage: Triage, tmp_path: Path, workplace: Path, home: Path
) -> None:
    history = History.begin(tmp_path / "clone")
    history.git("remote", "add", "origin", SECRET.format("tinyc"))
    history.commit("first", {"tinyc.py": compiler("P", 0)})
    gitlink = f"160000,{history.head()},third_party/lib"
    history.git("update-index", "--add", "--cacheinfo", gitlink)
    first = history.git("rev-parse", "HEAD")
    (history.path / "third_party/lib").mkdir(parents=True)
    modules = f'[submodule "lib"]\npath = third_party/lib\nurl = {SECRET.format("lib")}'
    files = {"tinyc.py": compiler("F", 1), ".gitmodules": modules}
    last = history.commit("last", {**files})
    (tmp_path / "p.yaml").write_text(RECIPE)
    (tmp_path / "p.c").write_text("program\n")
    words = ["bisect", tmp_path / "p.yaml", *between(history.path, first, last)]
    project = workplace / "triage.yaml"
    project.write_text(COPIED)
    assert asked(*words)["after"]["subject"] == "last"
    project.write_text(PROJECT)
    done = triage(*words)
    assert done.returncode == 4
    printed = done.stdout + done.stderr
    assert "git submodule failed" in printed
    assert "secret" not in printed
    texts = []
    for path in (home / "logs").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        texts.append(path.read_text())
    assert "127.0.0.1:9/lib.git" in "".join(texts)
    assert "secret" not in "".join(texts)
