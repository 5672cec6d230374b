"""What a compile can read is in the key of its result: another content is another
answer, and nothing else makes a known answer unknown.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.execution.test_inputs import NO_TOOLCHAIN
from tests.programs import write_program
from triage.processes import sealing

pytestmark = [
    pytest.mark.usefixtures("strictly_sealed"),
    pytest.mark.skipif(not sealing.can_seal(), reason="this system cannot seal"),
]

# Prints and copies all that the rows below change, as far as it may be read.
COMPILER = """#!/bin/sh
here="$(dirname "$0")"
for file in "$1" "$here/header.h" "$here/tables.json" "$here/cc.pl" "$here/part.sh" \\
    "$(dirname "$1")/weights.bin" "$3"; do
  [ -f "$file" ] && cat "$file"
done
. "$here/part.sh"
echo "$SOME_SETTING $CUDA_HOME $LD_LIBRARY_PATH $HOME"
touch "$2" && echo made > "$2"
"""
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "{output}", "MORE"]
input: program.txt
"""


@dataclass
class Workshop:
    """A recipe with its compiler, and what a run answers."""

    folder: Path
    triage: Triage

    @property
    def built(self) -> Path:
        return self.folder / "built"

    def run(self, toolchain: Path | None = None, *words: str) -> dict[str, object]:
        recipe = self.folder / "mine.yaml"
        rev = f"path:{toolchain or self.built}"
        done = self.triage("run", recipe, "-t", rev, "--format", "json", *words)
        [result] = json.loads(done.stdout)["results"]
        assert isinstance(result, dict)
        return result

    def write_compiler(self, script: str) -> None:
        write_program(self.built / "bin" / "cc", f"#!/bin/sh\n{script}\n")

    def write_recipe(self, more: str = "", argument: str = "") -> None:
        text = RECIPE.replace("MORE", argument)
        (self.folder / "mine.yaml").write_text(f"{text}{more}\n")


@pytest.fixture
def workshop(tmp_path: Path, home: Path, triage: Triage) -> Workshop:
    del home
    shop = Workshop(tmp_path, triage)
    write_program(shop.built / "bin" / "cc", COMPILER)
    for name in ("header.h", "tables.json", "cc.pl", "part.sh"):
        (shop.built / "bin" / name).write_text(f"# {name}\n")
    (tmp_path / "program.txt").write_text("a program with weights.bin\n")
    (tmp_path / "weights.bin").write_text("weights")
    (tmp_path / "spec.mlir").write_text("a spec")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table").write_text("a table")
    shop.write_recipe("reads: [data]", str(tmp_path / "spec.mlir"))
    return shop


def rewrite(name: str) -> Callable[[Workshop], None]:
    """Return a change of a file that keeps its size and its time."""

    def change(shop: Workshop) -> None:
        path = shop.folder / name
        state = path.stat()
        text = path.read_text()
        path.write_text(text[:-2] + ("x" if text[-2] != "x" else "y") + text[-1])
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    return change


CHANGES = {
    "input": rewrite("program.txt"),
    "file that the input mentions": rewrite("weights.bin"),
    "file that a word names": rewrite("spec.mlir"),
    "folder that the recipe names": rewrite("data/table"),
    "new file in that folder": lambda shop: (shop.folder / "data/new").touch(),
    "compiler": rewrite("built/bin/cc"),
    "header": rewrite("built/bin/header.h"),
    "tables": rewrite("built/bin/tables.json"),
    "script": rewrite("built/bin/cc.pl"),
    "sourced script": rewrite("built/bin/part.sh"),
    "right to start it": lambda shop: (shop.built / "bin/cc.pl").chmod(0o755),
    "new file of the compiler": lambda shop: (shop.built / "bin/more").write_text("x"),
    "removed file of the compiler": lambda shop: (shop.built / "bin/cc.pl").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_what_can_be_read_makes_another_answer(
    change: Callable[[Workshop], object], workshop: Workshop
) -> None:
    first = workshop.run()
    assert first["status"] == "passed", first
    assert workshop.run()["cached"]
    change(workshop)
    again = workshop.run()
    assert not again["cached"]
    assert workshop.run()["cached"]


def touch_all(shop: Workshop) -> None:
    for path in (*shop.built.rglob("*"), *shop.folder.glob("*.*")):
        path.touch()


def restore_home(shop: Workshop) -> None:
    """As a CI job restores its cache: copies with other times and inodes."""
    home = Path(os.environ["TRIAGE_HOME"])
    kept = home.with_name("kept")
    shutil.copytree(home, kept, symlinks=True)
    shutil.rmtree(home)
    shutil.copytree(kept, home, copy_function=shutil.copyfile)


NEEDLESS = {
    "times": touch_all,
    "restored home": restore_home,
    "another folder": lambda shop: os.chdir(shop.folder / "data"),
    "compiled modules": lambda shop: (shop.built / "bin/__pycache__").mkdir(),
    "lock": lambda shop: (shop.built / ".lock").touch(),
    "unrelated file beside the input": lambda shop: (shop.folder / "notes.txt").touch(),
}


@pytest.mark.parametrize("change", NEEDLESS.values(), ids=NEEDLESS.keys())
def test_nothing_else_makes_another_answer(
    change: Callable[[Workshop], object],
    workshop: Workshop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(workshop.folder)
    workshop.run()
    change(workshop)
    assert workshop.run()["cached"]


def test_a_copied_compiler_shares_its_results(workshop: Workshop) -> None:
    workshop.run()
    copy = workshop.folder / "copy"
    shutil.copytree(workshop.built, copy)
    assert workshop.run(copy)["cached"]
    (copy / "bin" / "cc.pl").write_text("# another\n")
    assert not workshop.run(copy)["cached"]


def test_variables_that_nothing_names_are_not_seen(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an activated environment."""
    workshop.run()
    for name in (
        "SOME_SETTING",
        "CUDA_HOME",
        "PATH",
        "LD_LIBRARY_PATH",
        "HOME",
        "LANG",
    ):
        monkeypatch.setenv(name, f"/secret{os.pathsep}{os.environ.get(name, '')}")
        assert workshop.run()["cached"]


def test_a_variable_that_the_recipe_names_is_part_of_the_answer(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.write_recipe("env: [SOME_SETTING]")
    monkeypatch.setenv("SOME_SETTING", "1")
    workshop.run()
    assert workshop.run()["cached"]
    monkeypatch.setenv("SOME_SETTING", "2")
    assert not workshop.run()["cached"]


@pytest.mark.parametrize("name", ["weights.bin", "program.txt", "data/table"])
def test_a_file_that_changes_meanwhile_leaves_no_answer(
    workshop: Workshop, home: Path, name: str
) -> None:
    """The compiler cannot change it; the user does."""
    slow = COMPILER.replace("touch", "sleep 0.2; touch")
    write_program(workshop.built / "bin" / "cc", slow)

    def change_while_it_compiles() -> None:
        while not list(home.glob("scratch/*")):
            time.sleep(0.01)
        rewrite(name)(workshop)

    user = threading.Thread(target=change_while_it_compiles, daemon=True)
    user.start()
    assert workshop.run()["status"] == "untestable"
    user.join()
    again = workshop.run()
    assert again["status"] == "passed"
    assert not again["cached"]


def test_what_is_not_declared_is_refused_and_named(workshop: Workshop) -> None:
    hidden = workshop.folder / "hidden.txt"
    hidden.write_text("secret")
    workshop.write_compiler(f'cat {hidden} > "$2" || exit 1')
    refused = workshop.run()
    assert refused["status"] == "untestable"
    assert str(hidden) in str(refused["reason"])
    assert "reads:" in str(refused["reason"])
    assert workshop.run(None, "--unsealed")["status"] == "passed"
    assert workshop.run()["status"] == "untestable"
    workshop.write_recipe(f"reads: [{hidden.name}]")
    assert workshop.run()["status"] == "passed"


def test_a_failure_that_only_looks_like_a_refusal_is_a_failure(
    workshop: Workshop,
) -> None:
    workshop.write_compiler("echo 'error: permission denied for this type' >&2; exit 1")
    assert workshop.run()["status"] == "failed"


GENERATOR = """import shapes
from pathlib import Path
table = Path(__file__).with_name("table.json").read_text()
print("program", shapes.N, table)
"""


@pytest.mark.parametrize(
    "name", ["make.py", "shapes.py", "sizes.py", "table.json", "lib/__init__.py"]
)
def test_a_generator_is_run_again_when_what_it_reads_changes(
    name: str, workshop: Workshop
) -> None:
    """Also a module that only a module imports, and a package."""
    folder = workshop.folder
    (folder / "make.py").write_text(GENERATOR)
    (folder / "shapes.py").write_text("import sizes\nimport lib\nN = sizes.N, lib.X\n")
    (folder / "sizes.py").write_text("N = 4\n")
    (folder / "table.json").write_text("[1]\n")
    (folder / "lib").mkdir()
    (folder / "lib" / "__init__.py").write_text("X = 1\n")
    # a recipe of commands takes Python as it is; a family with generators runs it
    recipe = "name: mine\ninput: make.py\ntarget: {backend: llvm-cpu}\n"
    (folder / "mine.yaml").write_text(recipe)
    digests = [prepared_input(workshop) for _ in range(2)]
    path = folder / name
    path.write_text(path.read_text() + "# more\n" if name.endswith(".py") else "[2]\n")
    digests.append(prepared_input(workshop))
    assert digests[0] == digests[1] != digests[2]


def prepared_input(workshop: Workshop) -> str:
    """Return the path of the generated program, whose name is its key."""
    from triage.compilers.registry import load_cases
    from triage.execution.engine import open_engine
    from triage.execution.task import Prepared

    [case] = load_cases([workshop.folder / "mine.yaml"])
    with open_engine([case]) as engine:
        prepared = engine.inputs.input_of(case, NO_TOOLCHAIN)
    assert isinstance(prepared, Prepared), prepared
    return prepared.path.name


def test_a_pipe_that_a_program_mentions_is_not_read(workshop: Workshop) -> None:
    (workshop.folder / "program.txt").write_text("reads queue\n")
    os.mkfifo(workshop.folder / "queue")
    assert workshop.run()["status"] == "passed"


def test_an_editable_package_is_part_of_its_environment(
    workshop: Workshop,
) -> None:
    """Its sources lie elsewhere; the environment has a link to them."""
    folder, sources = workshop.folder / "venv", workshop.folder / "sources"
    sources.mkdir()
    (sources / "mycc.py").write_text("VERSION = 1\n")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "lib" / f"python{python}" / "site-packages"
    metadata = packages / "mycc-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(os.path.realpath(sys.executable))
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (packages / "mycc.pth").write_text(f"{sources}\n")
    (metadata / "METADATA").write_text("Name: mycc\nVersion: 1.0\n")
    origin = {"url": sources.as_uri(), "dir_info": {"editable": True}}
    (metadata / "direct_url.json").write_text(json.dumps(origin))
    recipe = (
        "name: mine\ncompiler: command\ninput: program.txt\n"
        'command: ["{python}", "-c", "import mycc, sys; open(sys.argv[1], \'w\').write(str(mycc.VERSION))", "{output}"]\n'
    )
    (workshop.folder / "mine.yaml").write_text(recipe)
    first = workshop.run(folder)
    assert first["status"] == "passed", first
    assert workshop.run(folder)["cached"]
    (sources / "mycc.py").write_text("VERSION = 2\n")
    assert not workshop.run(folder)["cached"]


def test_the_target_of_a_link_is_part_of_a_compiler(workshop: Workshop) -> None:
    """As in a build tree of links."""
    real = workshop.folder / "objects"
    real.mkdir()
    (workshop.built / "bin" / "header.h").rename(real / "header.h")
    (workshop.built / "bin" / "header.h").symlink_to(real / "header.h")
    first = workshop.run()
    assert first["status"] == "passed", first
    (real / "header.h").write_text("# other\n")
    assert not workshop.run()["cached"]
