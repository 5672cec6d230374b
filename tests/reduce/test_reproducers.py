"""The folder of a reproducer, which golden/ shows, what it says of other releases, and
what it does when it is compiled again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import index_of
from tests.conftest import ROOT, Asked, Triage
from tests.fake_engine import FakeEngine
from tests.fake_releases import recipe
from tests.programs import write_program
from tests.recipes.loading import load_recipes
from tests.reduce.made import CASE, OUTCOMES, reproducer
from triage.model.case import Expectation, Flag, Target
from triage.reduce.reproducer import (
    folder_name,
    open_reproducers,
    replay,
    without_paths,
)
from triage.reduce.result import Replays
from triage.report.reproducer import write_reproducer

GOLDEN = Path(__file__).parent / "golden" / "attention-dtype-f16"
OURS = sorted(path for path in (ROOT / "reproducers").iterdir() if path.is_dir())
ALWAYS = {"recipe.yaml", "reproducer.json", "repro.sh", "README.md"}


def test_the_folder_matches_the_golden_files(tmp_path: Path) -> None:
    """`python -m tests.reduce.test_reproducers` updates the golden files after a
    deliberate change.
    """
    made = write_reproducer(reproducer(), tmp_path)
    assert made == tmp_path / "attention-dtype-f16"
    texts = [
        {path.name: path.read_text() for path in folder.iterdir()}
        for folder in (made, GOLDEN)
    ]
    assert texts[0] == texts[1]
    assert os.access(made / "repro.sh", os.X_OK)


@pytest.mark.parametrize(
    ("letters", "changes", "windows"),
    [
        ("PUFFPG", {}, ["F 3.2.0 3.4.0", "G 3.5.0"]),
        (
            "PFGP",
            {"summary": 'quotes " and \\ # and: colons\tü'},
            ["F 3.1.0 3.2.0", "G 3.2.0 3.3.0"],
        ),
        (
            "PFPF",
            {"flags": (Flag('--x={a: "b", c: #d}'),)},
            ["F 3.1.0 3.2.0", "F 3.3.0"],
        ),
        ("UFUFUP", {"name": "x" * 100}, ["F 3.1.0 3.5.0"]),
        ("PFU", {"target": Target("cuda", "90", devices=8)}, ["F 3.1.0"]),
    ],
)
def test_the_recipe_reads_back_as_the_reduced_case_and_expects_its_failures(
    tmp_path: Path, letters: str, changes: dict[str, Any], windows: list[str]
) -> None:
    case = replace(CASE, **changes)
    written = write_reproducer(reproducer(letters, case), tmp_path)
    [read] = load_recipes([written])
    assert read.name == f"{folder_name(case)}-reduced"
    for name in ("target", "flags", "phase", "limits"):
        assert getattr(read, name) == getattr(case, name)
    assert read.input.path == written / "input.mlir"
    classes = {"F": "shared-memory-overflow", "G": "verifier"}
    expected = [window.split() for window in windows]
    assert read.expect == tuple(
        Expectation(classes[letter], *bounds) for letter, *bounds in expected
    )


@pytest.mark.parametrize(("code", "body"), [(0, "exit 0"), (1, "kill -SEGV $$")])
def test_the_script_ends_with_1_where_the_compiler_fails(
    tmp_path: Path, code: int, body: str
) -> None:
    text = f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n{body}\n'
    compiler = write_program(tmp_path / "iree-compile", text)
    made = reproducer()
    script = write_reproducer(made, tmp_path) / "repro.sh"
    for changed, status in (
        ({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, code),
        ({"IREE_COMPILE": str(compiler)}, code),
        ({"IREE_COMPILE": "/none"}, 127),
    ):
        env = os.environ | changed
        done = subprocess.run([script], env=env, cwd="/", capture_output=True)
        assert done.returncode == status
    words = (tmp_path / "words").read_text().splitlines()
    assert words == [*made.compile.options, "input.mlir", "-o", "/dev/null"]


KEPT = "see https://iree.dev/reference/a, and 1/2/3 or a/b/c, (d0) -> (d0 / 2)"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "PROGRAM:2:3: error: x\n see PROGRAM",
            "input.mlir:2:3: error: x\n see input.mlir",
        ),
        (
            "/other/my files/same.mlir:2:3: error: x\n  y\n/a/b.mlir:1:1: note: z",
            "input.mlir:2:3: error: x\n  y\ninput.mlir:1:1: note: z",
        ),
        ("/other/same.mlir:2:3", "input.mlir:2:3"),
        (
            "0. Arguments: /opt/iree/bin/iree-compile --x=/opt/x.bin /o/i.mlir -o /h/77-x/out",
            "0. Arguments: iree-compile --x=x.bin i.mlir -o out",
        ),
        (
            "#1 0x7f (/opt/lib/libIREE.so+0x12) /dev/null",
            "#1 0x7f (libIREE.so+0x12) /dev/null",
        ),
        (KEPT, KEPT),
    ],
)
def test_paths_of_the_machine_become_names(
    tmp_path: Path, text: str, cleaned: str
) -> None:
    program = tmp_path / "a home" / "reductions" / "reduced-34.mlir"
    clean = without_paths({program: "input.mlir"}, "input.mlir")
    assert clean(text.replace("PROGRAM", str(program))) == cleaned


@pytest.mark.usefixtures("with_releases")
def test_what_a_reproducer_says_of_a_newer_good_release(
    asked: Asked, triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "case", "breaks-1\n// fixed-4 newer")
    words = f"-t 1.2.0 --good 1.5.0 --out {tmp_path}/out"
    answer = asked("reduce", path, *words.split())
    assert answer["lines"]["after"] == 2
    readme = Path(answer["reproducer"], "README.md").read_text()
    assert "It passes with 1.5.0" in readme
    assert "compare/1.5.0" not in readme
    # it fails there in another way
    path = recipe(tmp_path, "case", "differs-5\n// breaks-2")
    answer = asked("reduce", path, "-t", "1.3.0", "--good", "1.5.0", code=3)
    assert "it fails on 1.5.0, the --good version, too" in answer["reason"]


@pytest.mark.parametrize(
    ("letters", "status", "holds", "code"),
    [
        ("PUFP", "fixed", True, 0),
        ("PUPP", "fixed", False, 1),
        ("PUGF", "reproduces", False, 1),
        ("PUUP", "fixed", None, 3),
        ("PUF", "reproduces", True, 0),
    ],
)
def test_the_recorded_version_and_the_newest_are_compiled(
    tmp_path: Path, letters: str, status: str, holds: bool | None, code: int
) -> None:
    write_reproducer(reproducer(), tmp_path)
    names = [f"3.{number}.0" for number in range(len(letters))]
    engine: Any = FakeEngine(
        lambda job: OUTCOMES[letters[index_of(job.ref.revision)]], names
    )
    [result] = replay(engine, open_reproducers([tmp_path]))
    assert (result.status, result.holds) == (status, holds)
    assert Replays([result]).exit == code
    assert [*result.states] == names[2:]


@pytest.mark.parametrize("folder", OURS, ids=lambda folder: folder.name)
def test_each_bundled_reproducer_is_complete_and_contains_no_local_path(
    folder: Path,
) -> None:
    files = {
        path.name: path.read_text()
        for path in folder.iterdir()
        if path.suffix != ".bin"
    }
    program = {"input.py", "repro.py"} if "input.py" in files else {"input.mlir"}
    assert files.keys() - {"compare.py"} == ALWAYS | program
    assert os.access(folder / "repro.sh", os.X_OK)
    assert all(files[name] in files["README.md"] for name in program)
    values = set(re.findall(r"@(\w+\.bin)", files["recipe.yaml"]))
    assert values == {path.name for path in folder.glob("*.bin")}
    assert not re.search(r"/(root|home|tmp|work|Users)/", "".join(files.values()))
    record = json.loads(files["reproducer.json"])
    seen = {version["version"]: version for version in record["evidence"]}
    assert len(seen) >= 16
    assert seen[record["bad"]["name"]]["signature"] == record["signature"]
    assert not record["good"] or seen[record["good"]["name"]]["status"] == "passed"


@pytest.mark.real
@pytest.mark.slow
def test_each_bundled_reproducer_still_fails_as_recorded(
    shared_home: Path, asked: Asked
) -> None:
    replays = asked("replay", ROOT / "reproducers")["reproducers"]
    assert len(replays) == len(OURS)
    assert all(each["holds"] for each in replays)


if __name__ == "__main__":
    write_reproducer(reproducer(), GOLDEN.parent)
