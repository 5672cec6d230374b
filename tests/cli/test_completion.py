"""Shell completion, as the installed bash script asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.cli.app import COMMANDS
from triage.toolchains.index import Release
from triage.toolchains.install_cache import MANIFEST, folder_of

Complete = Callable[..., list[str]]
_RECIPE = "name: matmul\ninput: ${dtype}.mlir\ntarget: {backend: llvm-cpu}\nmatrix: {dtype: [f16, f32]}\n"


@pytest.fixture
def complete(triage: Triage) -> Callable[..., list[str]]:
    """Return what bash offers for the last of the words after `triage`."""

    def ask(*words: str, **folder: Path) -> list[str]:
        line = ["triage", *words]
        asked = {"_TRIAGE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
        done = triage(env={**os.environ, **asked}, **folder)
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def install(home: Path, distribution: str, version: str) -> None:
    """Create an intact install with one file in TRIAGE_HOME."""
    release = Release(version, "a.whl", "3.11", None, None, None)
    folder = folder_of(home / "toolchains", distribution, release)
    folder.mkdir(parents=True)
    (folder / "compiler").write_text("")
    (folder / MANIFEST).write_text(json.dumps({"files": {"compiler": 0}, "release": asdict(release)}))


def test_bash_completes_words_of_the_installed_script(tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-c", "from triage.cli import main; main()"],
        env=os.environ | {"_TRIAGE_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ask = "COMP_WORDS=(triage re); COMP_CWORD=1; _triage_completion triage; printf '%s\\n' \"${COMPREPLY[@]}\""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert set(done.stdout.split()) == {name for name in COMMANDS if name.startswith("re")}, done.stderr


def test_commands_and_their_subcommands(complete: Complete) -> None:
    assert set(complete("")) == {word for name in COMMANDS for word in name.split()}
    assert set(complete("toolchains", "")) == {"list", "install", "info", "prune"}


@pytest.mark.parametrize("words", [("run", "-t"), ("nightly", "--baseline"), ("history", "--since"), ("toolchains", "info")])
def test_installed_revisions(home: Path, complete: Complete, words: tuple[str, ...]) -> None:
    install(home, "iree-base-compiler", "3.1.0")
    install(home, "iree-base-compiler", "3.10.0")
    install(home, "triton", "3.2.0")
    assert complete(*words, "3.1") == ["3.10.0", "3.1.0"]
    assert complete(*words, "tri") == ["triton:3.2.0"]
    assert "latest" in complete(*words, "")


def test_cases_of_the_recipe_on_the_line(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "matmul.yaml").write_text(_RECIPE)
    for dtype in ("f16", "f32"):
        (tmp_path / f"{dtype}.mlir").touch()
    names = {"matmul[dtype=f16]", "matmul[dtype=f32]"}
    assert set(complete("bisect", "matmul.yaml", "--case", "", cwd=tmp_path)) == names
    assert complete("run", "matmul.yaml", "--case", "matmul[dtype=f1", cwd=tmp_path) == ["matmul[dtype=f16]"]
    (tmp_path / "matmul.yaml").write_text("name: [")
    assert complete("bisect", "matmul.yaml", "--case", "", cwd=tmp_path) == []
