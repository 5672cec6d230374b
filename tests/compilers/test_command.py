"""A compiler behind a command: what is looked at, what is run, what is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Asked, Triage
from tests.programs import write_program
from triage.compilers.command.adapter import Command, VersionCommand
from triage.model.errors import EnvironmentFailure
from triage.processes.sealing import Seal

COMPILER = """#!/bin/sh
# A compiler of one rule: what holds BAD is refused.
if [ "$1" = --version ]; then echo "minicc version 4.2.1 (x86)"; exit 0; fi
if grep -q BAD "$1"; then echo "minicc: $1: construct 17 is not allowed" >&2; exit 3; fi
echo 'triage: {"metrics": {"instructions": 12}}'
cp "$1" "$2"
"""
RULES = """family: minicc
classes:
  - class: not-allowed
    rank: 30
    patterns:
      - regex: "construct (?P<number>\\\\d+) is not allowed"
        where: line
    identity: [number]
    explanation: The construct is not allowed.
    remedies: {all: ["Use another."]}
"""
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/minicc", "{input}", "{output}"]
version: {run: ["{toolchain}/bin/minicc", "--version"], pattern: "version (\\\\S+)"}
rules: minicc.rules
input: program.c
"""


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder with a compiler."""
    write_program(tmp_path / "build/bin/minicc", COMPILER)
    return tmp_path / "build"


@pytest.mark.usefixtures("home")
def test_a_built_compiler_end_to_end_with_rules_of_its_own(
    asked: Asked, tmp_path: Path, built: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(RECIPE)
    (tmp_path / "minicc.rules").write_text(RULES)
    words = ("run", tmp_path / "mine.yaml", "-t", f"path:{built}")

    def result(code: int = 0) -> dict[str, Any]:
        [row] = asked(*words, code=code)["results"]
        return {"details": row["failure"] and row["failure"]["details"], **row}

    (tmp_path / "program.c").write_text("good\n")
    assert result()["metrics"] == {"instructions": 12, "artifact_bytes": 5}
    (tmp_path / "program.c").write_text("BAD\n")
    failed = result(code=1)
    assert failed["failure"]["class"] == "not-allowed"
    assert (failed["details"], failed["cached"]) == ({"number": 17}, False)
    assert result(code=1)["cached"]
    # a changed compiler is another compiler
    (built / "bin/minicc").write_text(COMPILER.replace("BAD", "WORSE"))
    assert not result()["cached"]


def test_a_killed_command_does_not_mean_that_there_is_no_version(
    home: Path, tmp_path: Path
) -> None:
    program = write_program(tmp_path / "bin/minicc", "#!/bin/sh\nkill -KILL $$\n")
    words = (str(program), "--version")
    family = Command(version=VersionCommand(words, r"\d+"))
    with pytest.raises(EnvironmentFailure, match="minicc --version does not run"):
        family.describe(program, Seal((tmp_path,)))


PARSER = 'echo "$1:1:7: error: expected type" >&2; exit 1'
LOADER = """
echo 'Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/c/ffi.py", line 3, in load
OSError: Could not find/load shared object file: libc4.so' >&2
exit 1"""


@pytest.mark.parametrize(
    ("body", "source", "status", "failure_class"),
    [
        (PARSER, "program.ll", "failed", "parse-error"),
        (PARSER, "program.mlir", "untestable", "parse-error"),
        (LOADER, "program.ll", "untestable", None),
    ],
)
def test_a_syntax_that_changes_and_a_damaged_install_say_nothing(
    built: Path,
    tmp_path: Path,
    triage: Triage,
    body: str,
    source: str,
    status: str,
    failure_class: str | None,
) -> None:
    write_program(built / "bin/minicc", f"#!/bin/sh\n{body}\n")
    (tmp_path / source).write_text("load i32* %x")
    recipe = tmp_path / "mine.yaml"
    command = 'command: ["{toolchain}/bin/minicc", "{input}"]'
    recipe.write_text(f"name: mine\ncompiler: command\n{command}\ninput: {source}\n")
    done = triage("run", recipe, "-t", f"path:{built}", "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    failure = result["failure"] or {"class": None}
    assert (result["status"], failure["class"]) == (status, failure_class)


@pytest.mark.usefixtures("home")
def test_a_number_that_grew_is_reduced_and_replayed(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    recipe = tmp_path / "size.yaml"
    command = 'command: ["{toolchain}/cc", "{input}", "{output}"]'
    recipe.write_text(f"name: size\ncompiler: command\n{command}\ninput: program.txt\n")
    (tmp_path / "program.txt").write_text("add\nloop\nadd\nloop\nmul\n")
    # other lines grew too, but by less than the threshold
    for name, line, loop in (("good", 4, 1), ("bad", 5, 16)):
        sizes = f'$(({line} * $(grep -c . "$1") + {loop} * $(grep -c loop "$1")))'
        fact = f'{{\\"metrics\\": {{\\"instructions\\": {sizes}}}}}'
        write_program(
            tmp_path / name / "cc", f'#!/bin/sh\necho "triage: {fact}"\ncp "$1" "$2"\n'
        )
    good, bad = f"path:{tmp_path / 'good'}", f"path:{tmp_path / 'bad'}"
    words = ("reduce", recipe, "-t", bad, "--metric", "instructions")
    answer = asked(*words, "--good", good, "--out", tmp_path / "out")
    assert answer["program"] == "loop\n"
    assert answer["signature"] == "metric:instructions"
    readme = Path(answer["reproducer"], "README.md").read_text()
    assert "fails" not in readme.partition("### Version")[0]  # its number is worse
    for rev, status in ((bad, "reproduces"), (good, "fixed")):
        replay = asked("replay", answer["reproducer"], "-t", rev)
        assert replay["reproducers"][0]["status"] == status
    assert triage(*words).returncode == 2
