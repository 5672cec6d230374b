from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.execution.damage import do, each_damage
from triage.execution.cache import ResultCache
from triage.execution.inputs import Inputs
from triage.execution.judge import NoTask
from triage.execution.reads import mentioned_by
from triage.execution.task import Prepared
from triage.model.case import Case, Input, InputKind, Target
from triage.model.execution import Captured
from triage.toolchains.contents import Contents
from triage.toolchains.home import Home, Workspace


def contents_in(folder: Path) -> Contents:
    return Contents(Workspace(Home(folder / "contents")))


NO_TOOLCHAIN: Any = None  # no input here needs one


def inputs_in(folder: Path) -> Inputs:
    workspace = Workspace(Home(folder))
    registry: Any = SimpleNamespace(
        home=workspace.home, workspace=workspace, contents=contents_in(folder)
    )
    families: Any = {"iree": SimpleNamespace(generator=())}
    cache = ResultCache(folder / "imports.db")
    return Inputs(registry, families, cache, threading.Event())


def prepared(path: Path, kind: InputKind = InputKind.GENERATOR) -> Prepared:
    """Prepare an input as a process with the home beside it does."""
    words = ("r", "r", "", "iree", path, Input(path, kind), Target("llvm-cpu"))
    return inputs_in(path.parent).prepare(Case(*words), NO_TOOLCHAIN)


@each_damage
@pytest.mark.parametrize("suffix", [".mlir", ".sha256"])
def test_a_damaged_cached_input_is_generated_again(
    tmp_path: Path, damage: str, suffix: str
) -> None:
    script = tmp_path / "gen.py"
    script.write_text(
        "import sys; print('tensor<4xf32>'); open(__file__ + '.calls', 'a').write('x')"
    )
    calls = tmp_path / "gen.py.calls"
    first = prepared(script)
    assert prepared(script) == first
    assert calls.read_text() == "x"
    do(damage, first.path.with_suffix(suffix))
    for _ in range(2):
        assert prepared(script) == first
        assert first.path.read_text() == "tensor<4xf32>\n"
        assert calls.read_text() == "xx"


def test_what_is_made_of_a_file_that_changes_meanwhile_is_not_kept(
    tmp_path: Path,
) -> None:
    script, table = tmp_path / "gen.py", tmp_path / "table.txt"
    text = "import time; time.sleep(0.2); print(open('table.txt', newline='').read())"
    script.write_text(text.replace("table.txt", str(table)))
    table.write_text("old")

    def change() -> None:
        while not [*tmp_path.rglob(".making-*")]:
            time.sleep(0.01)
        table.write_text("new, and longer")

    user = threading.Thread(target=change, daemon=True)
    user.start()
    with pytest.raises(NoTask, match="changed while"):
        prepared(script)
    user.join()
    table.write_text("old")
    assert prepared(script).path.read_text() == "old\n"


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
