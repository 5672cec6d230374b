"""A compiler behind a command: what is looked at, what is run, what is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Asked, Triage
from tests.programs import write_program

pytestmark = pytest.mark.usefixtures("home")
REFUSES = """
# A compiler of one rule: what holds BAD is refused.
if grep -q BAD "$1"; then echo "cc: $1: construct 17 is not allowed" >&2; exit 3; fi
echo 'triage: {"metrics": {"instructions": 12}}'
cp "$1" "$2"
"""
RULES = """family: cc
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


VERSION = (
    "version: {run: ['{toolchain}/bin/cc', --version], pattern: 'version (\\S+)'}\n"
)


def write_compiler(folder: Path, body: str, version: str = "1") -> str:
    """Write a compiler: `cc INPUT OUTPUT`. Return its REV."""
    asked = f'[ "$1" = --version ] && echo "cc version {version} (x86)" && exit'
    write_program(folder / "bin/cc", f"#!/bin/sh\n{asked}\n{body}\n")
    return f"path:{folder}"


def write_recipe(
    folder: Path, text: str, source: str = "in.c", keys: str = VERSION
) -> Path:
    """Write a program and a recipe that compiles it."""
    (folder / source).write_text(text)
    recipe = folder / "mine.yaml"
    command = "command: ['{toolchain}/bin/cc', '{input}', '{output}']"
    recipe.write_text(
        f"name: mine\ncompiler: command\ninput: {source}\n{command}\n{keys}"
    )
    return recipe


def test_a_built_compiler_end_to_end_with_rules_of_its_own(
    asked: Asked, tmp_path: Path
) -> None:
    (tmp_path / "cc.rules").write_text(RULES)
    rev = write_compiler(tmp_path / "build", REFUSES)

    def result(text: str, code: int = 0) -> Any:
        recipe = write_recipe(tmp_path, text, keys=f"{VERSION}rules: cc.rules\n")
        [row] = asked("run", recipe, "-t", rev, code=code)["results"]
        return row

    assert result("good\n")["metrics"] == {"instructions": 12, "artifact_bytes": 5}
    for cached in (False, True):
        row = result("BAD\n", code=1)
        assert (row["failure"]["class"], row["cached"]) == ("not-allowed", cached)
        assert row["failure"]["details"] == {"number": 17}
    # a changed compiler is another compiler
    write_compiler(tmp_path / "build", REFUSES.replace("BAD", "WORSE"))
    assert not result("BAD\n")["cached"]


def test_a_killed_command_does_not_mean_that_there_is_no_version(
    asked: Asked, tmp_path: Path
) -> None:
    rev = write_compiler(tmp_path / "build", 'cp "$1" "$2"', "$(kill -KILL $$)")
    recipe = write_recipe(tmp_path, "int x;\n")
    [row] = asked("run", recipe, "-t", rev, code=4)["results"]
    assert "cc --version does not run" in row["reason"]
    # one that does not know the option has none
    write_program(tmp_path / "old/bin/cc", '#!/bin/sh\ncp "$1" "$2"\n')
    [row] = asked("run", recipe, "-t", f"path:{tmp_path / 'old'}")["results"]
    assert row["status"] == "passed"


PARSER = 'echo "$1:1:7: error: expected type" >&2; exit 1'
LOADER = """
echo 'Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/c/ffi.py", line 3, in load
OSError: Could not find/load shared object file: libc4.so' >&2
exit 1"""


@pytest.mark.parametrize(
    ("body", "source", "code", "answer"),
    [
        (PARSER, "in.ll", 1, "failed parse-error"),
        (PARSER, "in.mlir", 3, "untestable parse-error"),
        (LOADER, "in.ll", 4, "untestable None"),
    ],
)
def test_a_syntax_that_changes_and_a_damaged_install_say_nothing(
    asked: Asked,
    tmp_path: Path,
    body: str,
    source: str,
    code: int,
    answer: str,
) -> None:
    recipe = write_recipe(tmp_path, "load i32* %x", source, keys="")
    rev = write_compiler(tmp_path / "build", body)
    [row] = asked("run", recipe, "-t", rev, code=code)["results"]
    failure = row["failure"] or {"class": None}
    assert f"{row['status']} {failure['class']}" == answer


def test_a_number_that_grew_is_reduced_and_replayed(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, "add\nloop\nadd\nloop\nmul\n", "in.txt")
    # other lines grew too, but by less than the threshold
    size = """
lines=$(grep -c . "$1") loops=$(grep -c loop "$1")
echo "triage: {\\"metrics\\": {\\"instructions\\": $((%d * lines + %d * loops))}}"
cp "$1" "$2"
"""
    good = write_compiler(tmp_path / "good", size % (4, 1))
    bad = write_compiler(tmp_path / "bad", size % (5, 16), "2")
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


# Compiles that end well and write no regular, non-empty file.
NO_OUTPUT = {
    "nothing": ":",
    "empty": ': > "$2"',
    "link": 'ln -s "$1" "$2"',
    "folder": 'mkdir "$2" && echo 1 > "$2/file"',
    "dangling link": 'ln -s /nowhere "$2"',
    "link to itself": 'ln -s "$2" "$2"',
    "pipe": 'mkfifo "$2"',
    "another file": 'cp "$1" other',
}


@pytest.mark.parametrize("kind", NO_OUTPUT)
def test_a_compile_that_wrote_no_file_failed(
    asked: Asked, tmp_path: Path, kind: str
) -> None:
    recipe = write_recipe(tmp_path, "int x;\n")
    rev = write_compiler(tmp_path / "bad", NO_OUTPUT[kind])
    [row] = asked("run", recipe, "-t", rev, code=1)["results"]
    failure = row["failure"]
    assert (failure["class"], failure["stage"]) == ("no-output", "compile")


@pytest.mark.parametrize("kind", list(NO_OUTPUT)[:3])
def test_a_missing_output_is_compared_and_its_reproducer_repeats_it(
    asked: Asked, workplace: Path, tmp_path: Path, kind: str
) -> None:
    recipe = write_recipe(tmp_path, "int x;\n")
    good = write_compiler(tmp_path / "good", 'cp "$1" "$2"', "1")
    bad = write_compiler(tmp_path / "bad", NO_OUTPUT[kind], "2")
    night = asked("nightly", recipe, "-t", bad, "-b", good, code=1)
    assert [entry["case"] for entry in night["regressed"]] == ["mine"]
    small = asked("reduce", recipe, "-t", bad, "--good", good)
    for rev, status in ((good, 0), (bad, 1)):
        env = {"PATH": os.defpath, "TOOLCHAIN": rev.removeprefix("path:")}
        script = workplace / small["reproducer"] / "repro.sh"
        assert subprocess.run([script], env=env).returncode == status
