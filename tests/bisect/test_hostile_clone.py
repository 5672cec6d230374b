"""A clone may come from anybody: nothing that its settings, hooks and attributes name is
started, whatever is asked about its commits.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bisect.driving import answered
from tests.conftest import Triage
from tests.git_history.history import History
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
build: {copy: [tinyc.py], submodules: true}
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
    first: str
    last: str

    def started(self) -> str:
        """What the clone started, a line each."""
        return self.mark.read_text() if self.mark.exists() else ""


def make_hostile(git_dir: Path, history: History, program: Path) -> None:
    for name in SETTINGS.split():
        value = f"!{program}" if name.endswith((".update", ".helper")) else program
        history.git("--git-dir", str(git_dir), "config", name, f"{value} {name}")
    others = {
        "core.hooksPath": program.parent / "hooks",
        "core.attributesFile": program.parent / "attributes",
        "log.showSignature": "true",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "submodule.recurse": "true",
        "filter.evil.required": "true",
        "remote.origin.url": f"ext::{program} remote",
        "hook.evil.event": "post-checkout",
        "include.path": program.parent / "included",
    }
    for name, value in others.items():
        history.git("--git-dir", str(git_dir), "config", name, str(value))
    (git_dir / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    for name in HOOKS.split():
        for folder in (git_dir / "hooks", program.parent / "hooks"):
            folder.mkdir(exist_ok=True)
            hook = folder / name
            hook.write_text(f"#!/bin/sh\n{program} {name} >&2\n")
            hook.chmod(0o755)


@pytest.fixture
def hostile(tmp_path: Path) -> HostileClone:
    mark, program = tmp_path / "mark", tmp_path / "evil" / "program"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\nexit 1\n')
    program.chmod(0o755)
    (program.parent / "attributes").write_text("* filter=evil diff=evil\n")
    (program.parent / "included").write_text(
        f"[core]\n\tfsmonitor = {program} included\n"
    )
    part = History.begin(tmp_path / "part")
    part.commit("part", {"part.c": "int part;\n", ".gitattributes": "* filter=evil\n"})
    history = History.begin(tmp_path / "clone")
    history.git("submodule", "--quiet", "add", "--name", "part", str(part.path), "part")
    shas = [
        history.commit(
            f"change {number}",
            {
                "tinyc.py": COMPILER.format(change=BROKEN if number > 2 else ""),
                "AllPasses.cpp": f"createFusionPass({number});\n",
                ".gitattributes": "* filter=evil diff=evil merge=evil\n",
            },
        )
        for number in range(6)
    ]
    signed = history.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END\n\n", 1
    )
    sha = history.git(
        "hash-object", "-t", "commit", "-w", "--stdin", data=signed.encode()
    )
    history.git("reset", "--quiet", "--hard", sha)
    for git_dir in (history.path / ".git", history.path / ".git/modules/part"):
        make_hostile(git_dir, history, program)
    mark.unlink(missing_ok=True)
    return HostileClone(history, mark, shas[0], sha)


@pytest.fixture
def words(hostile: HostileClone, tmp_path: Path, workplace: Path) -> list[object]:
    project, recipe = workplace / "triage.yaml", tmp_path / "p.yaml"
    project.write_text(PROJECT)
    recipe.write_text(RECIPE)
    (tmp_path / "p.txt").write_text("program\n")
    ends = ["--good", f"commit:{hostile.first}", "--bad", f"commit:{hostile.last}"]
    return [*ends, "--repo", hostile.history.path]


def test_the_settings_start_programs_where_git_is_asked_plainly(
    hostile: HostileClone,
) -> None:
    for words in (["log", "-p", "--ext-diff"], ["status"], ["archive", "HEAD"]):
        hostile.mark.unlink(missing_ok=True)
        with suppress(AssertionError):
            hostile.history.git(*words)
        assert hostile.started(), words


@pytest.mark.usefixtures("home")
def test_ranking_and_bisecting_its_commits_starts_nothing_of_it(
    hostile: HostileClone,
    words: list[object],
    triage: Triage,
    tmp_path: Path,
) -> None:
    log = tmp_path / "failed.log"
    log.write_text("tinyc: error: 'func.func' op failed to legalize the symbol\n")
    ranked = triage("suspects", log, *words, "--format", "json")
    assert answered(ranked)["suspects"]
    assert hostile.started() == ""
    done = triage("bisect", tmp_path / "p.yaml", *words, "--format", "json")
    assert answered(done)["after"]["subject"] == "change 3"
    assert hostile.started() == ""


@pytest.mark.usefixtures("home")
def test_nothing_of_it_starts_where_it_is_the_current_folder(
    hostile: HostileClone, words: list[object], triage: Triage, tmp_path: Path
) -> None:
    clone = hostile.history.path
    (clone / "triage.yaml").write_text(PROJECT)
    for command in ("suspects", "bisect"):
        triage(command, tmp_path / "p.yaml", *words, cwd=clone)
        assert hostile.started() == ""
    asked = ["bisect", tmp_path / "p.yaml", *words, "--build", "--format", "json"]
    done = triage(*asked, cwd=clone)
    assert answered(done)["after"]["subject"] == "change 3"
    assert hostile.started() == ""


@pytest.mark.usefixtures("home")
def test_what_a_partial_clone_lacks_is_not_fetched_by_its_programs(
    hostile: HostileClone, words: list[object], triage: Triage, tmp_path: Path
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
    hostile.mark.unlink(missing_ok=True)
    for command in ("suspects", "bisect"):
        triage(command, tmp_path / "p.yaml", *words)
        assert hostile.started() == ""


@pytest.mark.usefixtures("home")
def test_a_pipe_among_its_files_does_not_hang(
    hostile: HostileClone,
    words: list[object],
    triage: Triage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repository, "_FIRST_ANSWER", 1.0)
    config = hostile.history.path / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    done = triage("suspects", tmp_path / "p.yaml", *words)
    assert done.returncode in (2, 4)
    assert "git" in done.stderr


STEPS = "name: tinyc\ncompiler: command\nbuild: {{commands: 'touch {mark}; false'}}\n"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "kind",
    ["untracked", "into a submodule", "out of the clone", "work tree"],
)
def test_its_project_file_is_not_the_users_own(
    hostile: HostileClone,
    words: list[object],
    triage: Triage,
    tmp_path: Path,
    kind: str,
) -> None:
    history, steps = hostile.history, STEPS.format(mark=hostile.mark)
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
    asked = ["bisect", tmp_path / "p.yaml", *words[:4], "--repo", "."]
    done = triage(*asked, cwd=history.path)
    assert done.returncode == 2  # no project is left
    assert "triage.yaml is not used" in done.stderr
    assert "--build" in done.stderr
    assert hostile.started() == ""


@pytest.mark.usefixtures("home")
def test_the_users_word_lets_its_project_file_run(
    hostile: HostileClone, words: list[object], triage: Triage, tmp_path: Path
) -> None:
    clone = hostile.history.path
    asked = ["bisect", tmp_path / "p.yaml", *words[:4], "--repo", "."]
    mark = tmp_path / "mark"
    (clone / "triage.yaml").write_text(STEPS.format(mark=mark))
    triage(*asked, "--build", cwd=clone)
    assert mark.exists()
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
    ends = ["--good", f"commit:{first}", "--bad", f"commit:{last}"]
    asked = ["bisect", recipe, *ends, "--repo", history.path]
    project.write_text(PROJECT.replace(", submodules: true", ""))
    found = answered(triage(*asked, "--format", "json"))
    assert found["after"]["subject"] == "last"
    project.write_text(PROJECT)
    done = triage(*asked)
    assert done.returncode == 4
    printed = done.stdout + done.stderr
    assert "the submodule third_party/lib cannot be checked out" in printed
    assert "secret" not in printed
    logs = list((home / "logs").iterdir())
    assert any("127.0.0.1:9/lib.git" in path.read_text() for path in logs)
    for path in logs:
        assert path.stat().st_mode & 0o777 == 0o600
        assert "secret" not in path.read_text()
