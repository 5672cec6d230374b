"""Files that are made of others: generated inputs, files that are made once for each
content, and folders of compiles.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.execution.damage import do, each_damage
from tests.workshop import Workshop, generated_input
from triage.execution.engine import open_engine
from triage.execution.inputs import KeptFiles
from triage.execution.judge import NoTask
from triage.execution.reads import mentioned_by
from triage.model.content import cached_sha256
from triage.model.execution import Captured
from triage.toolchains.home import remove_tree

MAKERS = 6


def write_generator(folder: Path, text: str) -> Path:
    """Write a script, and return a recipe that takes its output as the program."""
    (folder / "gen.py").write_text(text)
    recipe = folder / "r.yaml"
    recipe.write_text("name: r\ninput: gen.py\ntarget: {backend: llvm-cpu}\n")
    return recipe


@pytest.mark.usefixtures("home")
@each_damage
@pytest.mark.parametrize("suffix", [".mlir", ".sha256"])
def test_a_damaged_cached_input_is_generated_again(
    tmp_path: Path, damage: str, suffix: str
) -> None:
    text = "open(__file__ + '.calls', 'a').write('x'); print('tensor<4xf32>')"
    recipe, calls = write_generator(tmp_path, text), tmp_path / "gen.py.calls"
    program = generated_input(recipe)
    assert generated_input(recipe) == program
    assert calls.read_text() == "x"
    do(damage, program.with_suffix(suffix))
    for _ in range(2):
        assert generated_input(recipe) == program
        assert program.read_text() == "tensor<4xf32>\n"
        assert calls.read_text() == "xx"


@pytest.mark.usefixtures("home")
def test_what_is_made_of_a_file_that_changes_meanwhile_is_not_kept(
    tmp_path: Path,
) -> None:
    pipe, table = tmp_path / "pipe", tmp_path / "table.txt"
    os.mkfifo(pipe)
    table.write_text("old")
    text = f"open({str(pipe)!r}, 'w').close()\nprint(open({str(table)!r}).read())"
    recipe = write_generator(tmp_path, text)

    def change() -> None:
        pipe.open().close()  # waits for the generator
        table.write_text("new, and longer")
        pipe.unlink()

    with ThreadPoolExecutor(1) as user:
        user.submit(change)
        with pytest.raises(NoTask, match="changed while"):
            generated_input(recipe)
    table.write_text("old")
    assert generated_input(recipe).read_text() == "old\n"


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("from helper import N", True),
        ("import helper.more as h", True),
        ("helpers and my_helper and a-helper", False),
        ("read('helper')", True),
    ],
)
def test_a_program_mentions_a_module_beside_it(
    tmp_path: Path, text: str, is_read: bool
) -> None:
    (tmp_path / "helper.py").write_text("N = 1\n")
    (tmp_path / "p.py").write_text(text)
    assert bool(mentioned_by(tmp_path / "p.py")) is is_read


def test_a_path_through_a_folder_and_a_link_mention_nothing(tmp_path: Path) -> None:
    key, program = tmp_path / "private" / "key", tmp_path / "p.mlir"
    key.parent.mkdir()
    key.write_text("secret")
    (tmp_path / "link").symlink_to(key)
    for text, read in ((f"{key}", []), ("'private/'", [key]), ("'link'", [])):
        program.write_text(f"read {text}")
        assert mentioned_by(program) == read


EXCEPTION = """Traceback (most recent call last):
  File "a.py", line 3, in <module>
    f(x)
jax.errors.TracerBoolConversionError: Attempted boolean conversion.
The error occurred while tracing the function f.

See https://docs.example.com/errors.html
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"{EXCEPTION}\nDuring handling:\n\n{EXCEPTION}",
            "jax.errors.TracerBoolConversionError: Attempted boolean conversion.",
        ),
        ("error: first\n\n  the last one  \n\n", "the last one"),
        ("", ""),
    ],
)
def test_the_reason_of_an_exception_is_its_message(text: str, reason: str) -> None:
    assert Captured(text).last_line == reason


def test_a_folder_that_several_make_at_once_is_there_for_all(tmp_path: Path) -> None:
    """Programs that run the same values at once share no lock."""

    def write(scratch: Path) -> Path:
        (scratch / "value").mkdir()
        (scratch / "value" / "0.bin").write_bytes(b"1")
        return scratch / "value"

    def get(target: Path) -> bytes:
        start.wait()
        return (KeptFiles().get(target, write).path / "0.bin").read_bytes()

    start = threading.Barrier(MAKERS)
    with ThreadPoolExecutor(MAKERS) as threads:
        for number in range(40):
            targets = [tmp_path / "values" / str(number)] * MAKERS
            assert {*threads.map(get, targets)} == {b"1"}


def test_a_file_that_changes_has_another_digest(tmp_path: Path) -> None:
    """Also when its size and its times stay the same, as far as a program can see to
    it.
    """
    path = tmp_path / "value.bin"
    for content in (b"one", b"two", b"six"):
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))
        assert cached_sha256(str(path)) == sha256(content).hexdigest()


def test_a_file_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    """A sealed program may open the file that it was allowed, and no other one."""
    target, inodes = tmp_path / "kept.mlir", []

    def write(scratch: Path) -> Path:
        made = scratch / "made"
        made.write_text("module {}")
        return made

    def make(scratch: Path) -> Path:
        KeptFiles().get(target, write)
        inodes.append(target.stat().st_ino)
        return write(scratch)

    assert KeptFiles().get(target, make).path == target
    assert [target.stat().st_ino] == inodes


# Folders of compiles are removed, whatever is in them

DEEP = """cd "$TMPDIR"
name=$(printf "a%.0s" $(seq 200))
for i in $(seq 30); do mkdir $name && cd $name || exit 3; done
chmod 0 .
echo "error: it fails" >&2; exit 1
"""


def test_a_deep_folder_of_a_compile_stops_no_run(
    workshop: Workshop, home: Path
) -> None:
    workshop.write_compiler(DEEP)
    for _ in range(2):
        assert workshop.run(None, "--fresh")["status"] == "failed"
    assert not any((home / "scratch").iterdir())


def test_a_tree_of_links_and_closed_folders_is_removed(tmp_path: Path) -> None:
    kept, root = tmp_path / "kept", tmp_path / "root"
    for folder in ("kept", "root/0/0/1", "root/1/0", "root/2/2/2"):
        (tmp_path / folder).mkdir(parents=True)
    (kept / "file").touch()
    links = (root / "3", root / "2" / "link", tmp_path / "link")
    for link in links:
        link.symlink_to(kept)
    (root / "4").symlink_to("nowhere")
    (root / "2" / "2").chmod(0)
    remove_tree(root)
    assert not os.path.lexists(root)
    remove_tree(tmp_path / "link")
    assert (kept / "file").exists()


def test_folders_of_killed_processes_are_removed(home: Path) -> None:
    (home / "scratch" / "dead").mkdir(parents=True)
    with open_engine([]) as engine, engine.folder() as alive, open_engine([]):
        assert list((home / "scratch").iterdir()) == [alive]


def test_doctor_makes_five_checks(
    home: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    checks = asked("doctor", code=4)["checks"]  # the index does not answer
    names = " ".join(check["check"] for check in checks)
    assert names == "home machine seal toolchains index"
