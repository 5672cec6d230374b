"""In which form a Python program of a `command:` compiler is reduced, and what is said
of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import command_recipe, install

MORE = "\n".join(f"x{number} = {number}" for number in range(12))
FAILS = "fail('breaks-3')"


@pytest.mark.parametrize(
    "program",
    [
        f"async def f():\n    {FAILS}\n",
        f"def f():\n    global g\n    g = fail\n    {FAILS}\n    return g\n",
        f"class A:\n    def f(self):\n        return __class__, {FAILS}\n",
        f"{FAILS}\n__annotations__\nnot_bound\n",
    ],
)
def test_a_program_that_python_compiles_is_reduced_by_statements(
    triage: Triage, home: Path, tmp_path: Path, program: str
) -> None:
    answer = reduced(triage, tmp_path, f"{MORE}\n{program}{MORE}\n")
    assert answer["notes"] == []
    assert answer["operations"]["after"] <= 3


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (f"def f(:\n{FAILS}\n", "cannot parse it (invalid syntax"),
        (f"x = 1{' + 1' * 200}  # {FAILS}\n", "it nests deeper than 150 levels"),
        (
            f"# {FAILS}\nx = 1\n",
            "its form without comments does not fail in the same way",
        ),
    ],
)
def test_the_note_on_text_has_the_true_reason(
    triage: Triage, home: Path, tmp_path: Path, program: str, why: str
) -> None:
    [note] = reduced(triage, tmp_path, program)["notes"]
    assert why in note
    assert note.endswith("reduced as plain text, by blocks and lines, then by tokens")


def reduced(triage: Triage, folder: Path, program: str) -> Any:
    path = command_recipe(folder, "case", "")
    (folder / "case.py").write_text(program)
    path.write_text(path.read_text().replace("case.txt", "case.py"))
    built = install(folder / "built", 5)
    words = ("-t", f"path:{built}", "--out", folder / "out", "--format", "json")
    done = triage("reduce", path, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
