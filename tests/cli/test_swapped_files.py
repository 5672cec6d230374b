"""Two files or folders of TRIAGE_HOME that took each other's name are misses: no command
answers about another case or compiler than it was asked about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import FakeReleases, environment, write_case

RELEASES = 3
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
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cases and programs."""
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
    return folder


@pytest.fixture
def answers(triage: Triage, releases: FakeReleases, used: Path) -> Callable[[Any], Any]:
    """Runs commands, and returns what they say without what may differ."""
    env = environment(releases, used / "home")

    def call(commands: Any) -> Any:
        texts = [
            triage(*words, "--format", "json", env=env, cwd=used).stdout
            for words in commands
        ]
        return [
            sorted(
                (row["case"], row["toolchain"]["name"], row["status"])
                for row in json.loads(text)["results"]
            )
            for text in texts
        ]

    return call


def _swap(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


@pytest.mark.parametrize("kind", KINDS)
def test_swapped_files_are_misses(
    used: Path, answers: Callable[[Any], Any], kind: str
) -> None:
    pattern, commands = KINDS[kind]
    expected = answers(commands)
    [place] = (used / "home").glob(kind)
    first, second, *_ = sorted(place.glob(pattern))
    for with_checksums in (False, True):
        _swap(first, second)
        if with_checksums and first.with_suffix(".sha256").is_file():
            _swap(first.with_suffix(".sha256"), second.with_suffix(".sha256"))
        assert answers(commands) == expected
