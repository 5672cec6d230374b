"""A compile that ends well and wrote no regular, non-empty file failed, in every family
and command.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.programs import write_program

pytestmark = pytest.mark.usefixtures("home")
KINDS = {
    "nothing": ":",
    "empty": ': > "$2"',
    "folder": 'mkdir "$2" && echo 1 > "$2/file"',
    "link": 'ln -s "$1" "$2"',
    "dangling link": 'ln -s /nowhere "$2"',
    "link to itself": 'ln -s "$2" "$2"',
    "pipe": 'mkfifo "$2"',
    "another file": 'cp "$1" other',
}


def write_recipe(folder: Path) -> Path:
    (folder / "program.c").write_text("int x;\n")
    recipe = folder / "mine.yaml"
    recipe.write_text(
        "name: mine\ncompiler: command\ninput: program.c\n"
        "command: ['{toolchain}/cc', '{input}', '{output}']\n"
        "version: {run: ['{toolchain}/cc', --version]}\n"
    )
    return recipe


def compiler(folder: Path, body: str, version: str) -> str:
    """Write a compiler: `cc INPUT OUTPUT`. Return its REV."""
    write_program(folder / "cc", f"#!/bin/sh\n[ $# = 1 ] && echo {version}\n{body}\n")
    return f"path:{folder}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_compile_that_wrote_no_file_failed(
    asked: Asked, tmp_path: Path, kind: str
) -> None:
    words = (write_recipe(tmp_path), "-t", compiler(tmp_path / "bad", KINDS[kind], "2"))
    for cached in (False, True):
        [row] = asked("run", *words, code=1)["results"]
        failure = row["failure"]
        assert (row["status"], row["cached"]) == ("failed", cached)
        assert (failure["class"], failure["stage"]) == ("no-output", "compile")


@pytest.mark.parametrize("kind", ["nothing", "empty", "link"])
def test_it_is_bisected_and_its_reproducer_repeats_it(
    asked: Asked, workplace: Path, tmp_path: Path, kind: str
) -> None:
    recipe = write_recipe(tmp_path)
    good = compiler(tmp_path / "good", 'cp "$1" "$2"', "1")
    bad = compiler(tmp_path / "bad", KINDS[kind], "2")
    night = asked("nightly", recipe, "-t", bad, "-b", good, code=1)
    assert [entry["case"] for entry in night["regressed"]] == ["mine"]
    small = asked("reduce", recipe, "-t", bad, "--good", good)
    for rev, status in ((good, 0), (bad, 1)):
        env = {"PATH": os.defpath, "TOOLCHAIN": rev.removeprefix("path:")}
        script = workplace / small["reproducer"] / "repro.sh"
        assert subprocess.run([script], env=env, check=False).returncode == status
