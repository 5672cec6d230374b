"""Files that others write: a link to a private file never prints its content, a pipe, a
device or an endless file never holds a command up, and no revision that they name
starts a program of this machine without a word of the user.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Lab, rows
from tests.fake_releases import compiler
from tests.git_history.history import History
from tests.programs import write_program

SECRET = "s3cret-word"
MODULE = "func.func @main() { return }\n"
RECIPE = "name: p\ncompiler: iree\ninput: input.mlir\ntarget: {backend: llvm-cpu}\n"
SUITE = {
    "config_name": "cpu",
    "iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"],
    "iree_run_module_flags": [],
}
FILES = {
    "input.mlir": MODULE,
    "recipe.yaml": RECIPE,
    "k.yaml": f"{RECIPE}expect: known.expect.yaml\n",
    "known.expect.yaml": "p: [{failure: timeout}]\n",
    "f.yaml": f"{RECIPE}run: {{flagfile: flags.txt}}\n",
    "flags.txt": "--input=4xf32=1\n",
    "c.yaml": "name: c\ncompiler: command\npackage: six\ncommand: [cat, '{input}']\ninput: input.mlir\nrules: own.rules\n",
    "own.rules": "classes: []\n",
    "reproducer.json": '{"case": "p", "signature": "s", "bad": {"name": "1.0.0", "commit": null}}',
    "nightly.json": "{}",
    "config.json": json.dumps(SUITE),
    "triage.yaml": "name: own\ncompiler: iree\n",
    "suite/one/model.mlir": MODULE,
    "suite/one/run_module_io_flags.txt": "--input=4xf32=1\n",
    "../triage.yaml": "name: own\ncompiler: iree\nbuild: {commands: [false]}\n",
    "../log": "error: failed\n",
    "../private/key": f"{SECRET}: [{SECRET}\n",
}
GIT_FILES = """HEAD config packed-refs shallow commondir info/grafts refs/heads/main index
objects/info/alternates config.worktree info/attributes"""
# A file in somebody else's folder, and a command that reads it.
READERS = """
recipe.yaml        run folder/recipe.yaml -t 1.0.0
recipe.yaml        run folder -t 1.0.0
recipe.yaml        recipe validate folder
recipe.yaml        recipe list folder
recipe.yaml        bisect folder/recipe.yaml
recipe.yaml        why folder/recipe.yaml
recipe.yaml        expect update folder/recipe.yaml
recipe.yaml        replay folder
known.expect.yaml  recipe validate folder/k.yaml
flags.txt          recipe validate folder/f.yaml
own.rules          recipe validate folder/c.yaml
own.rules          classify --rules folder/own.rules log
reproducer.json    replay folder
reproducer.json    replay .
nightly.json       issues sync folder --repo a/b
nightly.json       nightly merge folder --out out
nightly.json       nights show folder/nightly.json
config.json        nightly folder/suite --suite-config folder/config.json -t 1.0.0 -b 1.0.0
suite/one/run_module_io_flags.txt  nightly folder/suite --suite-config folder/config.json -t 1.0.0 -b 1.0.0
triage.yaml        bisect folder/recipe.yaml --repo folder --build --good HEAD~1 --bad HEAD
""" + "\n".join(
    f".git/{name}  bisect folder/recipe.yaml --repo folder --good HEAD~1 --bad HEAD"
    for name in GIT_FILES.split()
)
# These are not read at all, or other refs are.
ANY_FILE = (".git/index", ".git/info/attributes", ".git/config.worktree")


@pytest.fixture
def folder(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody else's folder, in which all is as it should be."""
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    history = History.begin(lab.folder / "folder")
    for number in range(2):
        history.commit(f"change {number}", {"main.c": f"{number}\n"})
    for name, text in FILES.items():
        lab.write(f"folder/{name}", text)
    return history.path


# What takes the place of the file $0.
KINDS = {
    "a link out": "ln -sr ../private/key $0",
    "an absolute link": "ln -s $PWD/../private/key $0",
    "a link to a link": "ln -sr ../private/key other; ln -sr other $0",
    "a pipe": "mkfifo $0",
    "a link to a pipe": "mkfifo pipe; ln -sr pipe $0",
    "a device": "ln -s /dev/zero $0",
    "an endless file": "truncate -s 4T $0",
    "a folder": "mkdir $0",
    "a circle": "ln -s ${0##*/} $0",
}


def sampled() -> Iterator[object]:
    """Yield every reader with every kind; all but three kinds of each are slow."""
    for number, row in enumerate(rows(READERS)):
        for place, kind in enumerate(KINDS):
            is_slow = (place - number) % len(KINDS) >= 3
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(*row, kind, marks=marks)


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize(("file", "line", "kind"), [*sampled()])
def test_a_file_of_somebody_else_is_read_as_a_file_or_not_at_all(
    lab: Lab, folder: Path, file: str, line: str, kind: str
) -> None:
    script = f"rm -f $0; {KINDS[kind]}"
    subprocess.run(["sh", "-ec", script, file], cwd=folder, check=True)
    done = lab.run(*line.split())
    printed = done.stdout + done.stderr
    assert SECRET not in printed
    assert "Traceback" not in printed
    is_skipped = line.startswith("classify") and kind == "a folder"
    if file not in ANY_FILE and not is_skipped:
        assert done.returncode in (2, 3, 4), printed


SHA = "1a2b3c4d5e" * 4
# Ways to name a program, a build or a folder.
NAMES = f"""
path:stranger
path:stranger/tools/iree-compile
path:FOLDER/stranger
path:./stranger
 path:stranger
iree:path:stranger
stranger
./stranger
FOLDER/stranger
commit:{SHA}
{SHA[:10]}
command:stranger
3.0.0 @ file://FOLDER/stranger
""".strip("\n").splitlines()


@pytest.fixture
def mark(lab: Lab) -> Path:
    """What the stranger's program writes when it compiles; `folder` has a reproducer."""
    mark = lab.folder / "mark"
    for place in (lab.folder, lab.folder / "folder"):
        program = write_program(place / "stranger" / "tools" / "iree-compile", "")
        program.write_bytes(compiler(1, "9.9.9", str(mark)))
    lab.write("folder/input.mlir", MODULE)
    lab.write("folder/recipe.yaml", RECIPE)
    return mark


def record(lab: Lab, name: str, commit: str | None = SHA) -> None:
    """Write a reproducer that failed on this revision."""
    bad = {"name": name.replace("FOLDER", f"{lab.folder}/folder"), "commit": commit}
    text = json.dumps({"case": "p", "signature": "s", "bad": bad})
    lab.write("folder/reproducer.json", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_reproducer_starts_no_program_that_it_names(
    lab: Lab, mark: Path, name: str
) -> None:
    record(lab, name)
    for line, cwd in (("replay folder", "."), ("replay .", "folder")):
        message = lab.refused(line, cwd=lab.folder / cwd)
        assert "reproducer.json" in message
        assert "-t" in message
        assert not mark.exists()


def test_the_users_word_starts_it(lab: Lab, mark: Path) -> None:
    record(lab, "path:stranger")
    lab("replay folder -t path:stranger", 1)
    assert mark.exists()


@pytest.mark.parametrize("name", [name for name in NAMES if " " not in name])
def test_a_recipe_starts_no_program_that_its_reference_names(
    lab: Lab, mark: Path, name: str
) -> None:
    rev = name.replace("FOLDER", f"{lab.folder}/folder")
    run = f'run:\n  inputs: ["4xf32=1"]\n  reference: {{toolchain: "{rev}"}}\n'
    lab.write("folder/recipe.yaml", RECIPE + run)
    record(lab, "1.1.0", None)
    for line in ("replay .", "replay . -t 1.1.0", "run recipe.yaml -t 1.1.0"):
        done = lab.run(*line.split(), cwd=lab.folder / "folder")
        assert done.returncode in (1, 3, 4), done.stdout + done.stderr
        assert not mark.exists()


def test_a_text_starts_no_program_that_it_names(lab: Lab, mark: Path) -> None:
    text = "\n".join(f"Fails on iree {name} since {name}." for name in NAMES)
    lab.write("issue.md", f"{text}\n\n```mlir\n{MODULE}```\n")
    lab.run("why", "issue.md", "--budget", "5s")
    assert not mark.exists()
