"""Two files or folders of TRIAGE_HOME that took each other's name are misses: no command
answers about another case or compiler than it was asked about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fake_releases import FakeReleases, environment, fake_releases, write_case
from triage.cli.app import app

GENERATOR = """import sys
print("// a program that is generated:", "breaks-2" if "bad" in sys.argv else "steady")
"""
CASES = {"steady": "steady", "breaks": "breaks-1", "later": "breaks-2"}
RUN = (("run", "cases", "-t", "1.0.0", "-t", "1.1.0", "-t", "1.2.0"),)
PROGRAMS = tuple(
    ("run", name, "-t", "1.2.0", "--backend", "llvm-cpu")
    for name in ("program.mlir", "other.mlir")
)
# folder below the home -> names in it, and what to ask after two of them are swapped
KINDS = {
    "state/capabilities": ("*", RUN),
    "inputs": ("*.mlir", RUN),
    "toolchains": ("iree-*", RUN),
    "programs": ("*", PROGRAMS),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    folder = tmp_path_factory.mktemp("releases")
    with fake_releases(folder, count=3, logged=False) as made:
        yield made


@pytest.fixture(scope="module")
def used(releases: FakeReleases, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cases and a home in which all commands have run."""
    folder = tmp_path_factory.mktemp("used")
    for name, word in CASES.items():
        write_case(folder / "cases", name, word)
    (folder / "cases" / "made.py").write_text(GENERATOR)
    (folder / "cases" / "made.yaml").write_text(
        "name: made\ninput: made.py\nmatrix: {kind: [good, bad]}\n"
        "args: {kind: '${kind}'}\ntarget: {backend: llvm-cpu}\n"
    )
    (folder / "program.mlir").write_text("// breaks-1\n")
    (folder / "other.mlir").write_text("// steady\n")
    for commands in (RUN, PROGRAMS):
        _answers(folder, releases, commands)
    return folder


def _answers(folder: Path, releases: FakeReleases, commands: Any) -> list[Any]:
    """Run commands, and return what they say without what may differ."""
    answers: list[Any] = []
    for words in commands:
        env = environment(releases, folder / "home")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            done = CliRunner().invoke(app, [*words, "--format", "json"], env=env)
        assert "Traceback" not in done.stderr, done.stderr
        answers.append(_essence(json.loads(done.stdout)))
    return answers


def _essence(answer: dict[str, Any]) -> Any:
    return sorted(
        (row["case"], row["toolchain"]["name"], row["status"])
        for row in answer["results"]
    )


def _swap(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


@pytest.mark.parametrize("kind", KINDS)
def test_swapped_files_are_misses(
    used: Path, releases: FakeReleases, kind: str
) -> None:
    pattern, commands = KINDS[kind]
    [place] = (used / "home").glob(kind)
    expected = _answers(used, releases, commands)
    first, second, *_ = sorted(place.glob(pattern))
    for with_checksums in (False, True):
        _swap(first, second)
        if with_checksums and first.with_suffix(".sha256").is_file():
            _swap(first.with_suffix(".sha256"), second.with_suffix(".sha256"))
        assert _answers(used, releases, commands) == expected
