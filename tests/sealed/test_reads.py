"""What a compile can read is said, and is in the key of its result: another content is
another answer, and nothing else makes a known answer unknown.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.programs import until, write_program
from tests.sealed.conftest import needs_seal
from tests.workshop import Workshop, generated_input

pytestmark = [pytest.mark.usefixtures("strictly_sealed"), needs_seal]

# Prints and copies all that the rows below change, as far as it may be read.
COMPILER = """
here="$(dirname "$0")"
for file in "$1" "$here/header.h" "$here/tables.json" "$here/cc.pl" "$here/part.sh" \\
    "$(dirname "$1")/weights.bin" "$3"; do
  [ -f "$file" ] && cat "$file"
done
. "$here/part.sh"
echo "$SOME_SETTING $CUDA_HOME $LD_LIBRARY_PATH $HOME"
touch "$2" && echo made > "$2"
"""


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    """A compiler of several files, which all are read, as others are that the recipe
    names.
    """
    workshop.write_compiler(COMPILER)
    for name in ("header.h", "tables.json", "cc.pl", "part.sh"):
        (workshop.built / "bin" / name).write_text(f"# {name}\n")
    (workshop.folder / "data").mkdir()
    for name in ("weights.bin", "spec.mlir", "data/table"):
        (workshop.folder / name).write_text("content")
    workshop.write_recipe("reads: [data]", str(workshop.folder / "spec.mlir"))
    return workshop


def rewrite(path: Path) -> None:
    """Change a file; its size and its time stay."""
    state, text = path.stat(), path.read_text()
    path.write_text(text[:-2] + ("x" if text[-2] != "x" else "y") + text[-1])
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "program.txt": rewrite,
    "weights.bin": rewrite,  # the input mentions it
    "spec.mlir": rewrite,  # a word of the command names it
    "data/table": rewrite,  # is in a folder that the recipe names
    "data/new": Path.touch,
    "built/bin/cc": rewrite,
    "built/bin/header.h": rewrite,
    "built/bin/tables.json": rewrite,
    "built/bin/part.sh": rewrite,
    "built/bin/cc.pl": rewrite,
    "built/bin/tables": lambda path: path.with_suffix(".json").chmod(0o755),
    "built/bin/more": Path.touch,
    "built/bin/header": lambda path: path.with_suffix(".h").unlink(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_can_be_read_makes_another_answer(
    shop: Workshop, name: str
) -> None:
    first = shop.run()
    assert first["status"] == "passed", first
    assert shop.run()["cached"]
    CHANGES[name](shop.folder / name)
    assert not shop.run()["cached"]
    assert shop.run()["cached"]


def touch_all(shop: Workshop) -> None:
    for path in (*shop.built.rglob("*"), *shop.folder.glob("*.*")):
        path.touch()


def restore_home(shop: Workshop) -> None:
    """As a CI job restores its cache: copies with other times and inodes."""
    home, kept = shop.folder / "home", shop.folder / "kept"
    shutil.copytree(home, kept, symlinks=True)
    shutil.rmtree(home)
    shutil.copytree(kept, home, copy_function=shutil.copyfile)


NEEDLESS: dict[str, Callable[[Workshop], object]] = {
    "times": touch_all,
    "restored home": restore_home,
    "another folder": lambda shop: os.chdir(shop.folder / "data"),
    "compiled modules": lambda shop: (shop.built / "bin/__pycache__").mkdir(),
    "lock": lambda shop: (shop.built / ".lock").touch(),
    "unrelated file beside the input": lambda shop: (shop.folder / "notes.txt").touch(),
}


@pytest.mark.parametrize("name", NEEDLESS)
def test_nothing_else_makes_another_answer(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(shop.folder)
    shop.run()
    NEEDLESS[name](shop)
    assert shop.run()["cached"]


def test_a_copied_compiler_shares_its_results(shop: Workshop) -> None:
    shop.run()
    copy = shop.folder / "copy"
    shutil.copytree(shop.built, copy)
    assert shop.run(copy)["cached"]
    rewrite(copy / "bin" / "cc.pl")
    assert not shop.run(copy)["cached"]


def test_variables_that_nothing_names_are_not_seen(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an activated environment."""
    shop.run()
    for name in (
        "SOME_SETTING",
        "CUDA_HOME",
        "PATH",
        "LD_LIBRARY_PATH",
        "HOME",
        "LANG",
    ):
        monkeypatch.setenv(name, f"/secret{os.pathsep}{os.environ.get(name, '')}")
        assert shop.run()["cached"]


def test_a_variable_that_the_recipe_names_is_part_of_the_answer(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write_recipe("env: [SOME_SETTING]")
    for value in ("1", "2"):
        monkeypatch.setenv("SOME_SETTING", value)
        assert [shop.run()["cached"] for _ in range(2)] == [False, True]


@pytest.mark.parametrize("name", ["weights.bin", "program.txt", "data/table"])
def test_a_file_that_changes_meanwhile_leaves_no_answer(
    shop: Workshop, home: Path, name: str
) -> None:
    """The compiler cannot change it; the user does."""
    file = shop.folder / name
    waits = f"until grep -q x {file}; do sleep 0.01; done"
    shop.write_compiler(f"{waits}{COMPILER}")

    def change_while_it_compiles() -> None:
        until(lambda: [*home.glob("scratch/*")])
        rewrite(file)

    with ThreadPoolExecutor(1) as user:
        user.submit(change_while_it_compiles)
        assert shop.run()["status"] == "untestable"
    again = shop.run()
    assert again["status"] == "passed"
    assert not again["cached"]


def test_what_is_not_declared_is_refused_and_named(workshop: Workshop) -> None:
    hidden = workshop.folder / "hidden.txt"
    hidden.write_text("secret")
    workshop.write_compiler(f'cat {hidden} > "$2" || exit 1')
    refused = workshop.run()
    assert refused["status"] == "untestable"
    assert str(hidden) in refused["reason"]
    assert "reads:" in refused["reason"]
    assert workshop.run(None, "--unsealed")["status"] == "passed"
    assert workshop.run()["status"] == "untestable"
    workshop.write_recipe(f"reads: [{hidden.name}]")
    assert workshop.run()["status"] == "passed"


def test_a_program_that_a_test_script_may_not_start_is_named(
    workshop: Workshop, asked: Asked, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hidden = tmp_path_factory.mktemp("other") / "checker"
    script = workshop.folder / "check.sh"
    for path in (hidden, script):
        write_program(path, f"#!/bin/sh\nexec {hidden}\n")
    workshop.write_compiler("")
    older = shutil.copytree(workshop.built, workshop.folder / "older")
    ends = ["--good", f"path:{older}", "--bad", f"path:{workshop.built}"]
    answer = asked("bisect", workshop.recipe, "--script", script, *ends, code=3)
    assert f"it wants {hidden}: " in answer["reason"]


def test_a_failure_that_only_looks_like_a_refusal_is_a_failure(
    workshop: Workshop,
) -> None:
    workshop.write_compiler("echo 'error: permission denied for this type' >&2; exit 1")
    assert workshop.run()["status"] == "failed"


def test_a_pipe_that_a_program_mentions_is_not_read(shop: Workshop) -> None:
    os.mkfifo(shop.folder / "queue")
    (shop.folder / "program.txt").write_text("reads queue\n")
    assert shop.run()["status"] == "passed"


def test_the_target_of_a_link_is_part_of_a_compiler(shop: Workshop) -> None:
    """As in a build tree of links."""
    header, object_ = shop.built / "bin" / "header.h", shop.folder / "object.h"
    header.rename(object_)
    header.symlink_to(object_)
    assert shop.run()["status"] == "passed"
    rewrite(object_)
    assert not shop.run()["cached"]


MODULES = {
    "make.py": """import shapes
from pathlib import Path
table = Path(__file__).with_name("table.json").read_text()
print("program", shapes.N, table)
""",
    "shapes.py": "import sizes\nimport lib\nN = sizes.N, lib.X\n",
    "sizes.py": "N = 4\n",
    "table.json": "[1]\n",
    "lib/__init__.py": "X = 1\n",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_generator_is_run_again_when_what_it_reads_changes(
    name: str, workshop: Workshop
) -> None:
    """Also a module that only a module imports, and a package."""
    folder = workshop.folder
    (folder / "lib").mkdir()
    for module, text in MODULES.items():
        (folder / module).write_text(text)
    # a recipe of commands takes Python as it is; a family with generators runs it
    text = "name: mine\ninput: make.py\ntarget: {backend: llvm-cpu}\n"
    workshop.recipe.write_text(text)
    first = generated_input(workshop.recipe)
    assert generated_input(workshop.recipe) == first
    (folder / name).write_text(MODULES[name] + "\n")
    assert generated_input(workshop.recipe) != first


def test_an_editable_package_is_part_of_its_environment(workshop: Workshop) -> None:
    """Its sources lie elsewhere; the environment has a link to them."""
    folder, sources = workshop.folder / "venv", workshop.folder / "sources"
    python = Path(os.path.realpath(sys.executable))
    packages = folder.joinpath("lib", python.name, "site-packages")
    origin = {"url": sources.as_uri(), "dir_info": {"editable": True}}
    files = {
        folder / "pyvenv.cfg": f"home = {python.parent}\n",
        packages / "mycc.pth": f"{sources}\n",
        packages / "mycc-1.0.dist-info/METADATA": "Name: mycc\nVersion: 1.0\n",
        packages / "mycc-1.0.dist-info/direct_url.json": json.dumps(origin),
        sources / "mycc.py": "VERSION = 1\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(python)
    workshop.recipe.write_text(
        "name: mine\ncompiler: command\ninput: program.txt\n"
        'command: ["{python}", "-c", "import mycc, sys; open(sys.argv[1], \'w\').write(str(mycc.VERSION))", "{output}"]\n'
    )
    first = workshop.run(folder)
    assert first["status"] == "passed", first
    assert workshop.run(folder)["cached"]
    rewrite(sources / "mycc.py")
    assert not workshop.run(folder)["cached"]


# What is said


def test_verbose_names_what_each_compile_may_read(shop: Workshop) -> None:
    words = ("run", shop.recipe, "-t", f"path:{shop.built}", "--verbose")
    printed = shop.triage(*words).stderr.splitlines()
    [line] = [line for line in printed if " may read " in line]
    for name in ("built", "program.txt", "weights.bin", "spec.mlir", "data"):
        assert str(shop.folder / name) in line
    assert str(shop.folder / "home") not in line
    assert " may read all files" in shop.triage("--unsealed", *words).stderr
    assert " may read " not in shop.triage(*words[:-1]).stderr


@pytest.mark.parametrize("words", [(), ("--unsealed",)])
def test_a_night_says_whether_it_was_sealed(
    shop: Workshop, asked: Asked, workplace: Path, words: tuple[str, ...]
) -> None:
    other = shutil.copytree(shop.built, shop.folder / "other")
    revs = ("-b", f"path:{shop.built}", "-t", f"path:{other}")
    night = asked(*words, "nightly", shop.recipe, *revs, "--out", "out")
    assert night["sealed"] is not bool(words)
    report = (workplace / "out" / "nightly.md").read_text()
    assert ("compiles were not sealed" in report) is bool(words)
    assert ("compiles were sealed" in report) is not bool(words)
