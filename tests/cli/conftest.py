"""The harness of tests of commands: a folder in which they run, and releases of a fake
compiler.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import FakeReleases, fake_releases, recipe

SECONDS = 120  # more than any of the commands takes on a busy machine
# An undeclared device, for the installed compiler.
UNKNOWN_DEVICE = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = flow.tensor.transfer %a : tensor<4xf32> to #hal.device.promise<@missing>
  %1 = arith.addf %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table, between which are two blanks or more."""
    return [re.split("  +", row) for row in table.strip().splitlines()]


@dataclass(frozen=True)
class Lab:
    """The folder of the commands, an empty home, and IREE 1.0.0 to 1.5.0 on an index."""

    folder: Path
    home: Path
    releases: FakeReleases
    run: Triage

    def __call__(
        self, line: str, code: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line, which ends with this code and without a traceback."""
        done = self.run(*shlex.split(line), **options)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def json(self, line: str, code: int = 0, **options: Any) -> Any:
        return json.loads(self(f"{line} --format json", code, **options).stdout)

    def refused(self, line: str, code: int = 2, **options: Any) -> str:
        """Run a command line that has no answer, and return its message."""
        done = self(line, code, **options)
        assert done.stdout == ""
        return done.stderr

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def recipe(self, name: str, program: str, more: str = "") -> None:
        """Write a recipe with a program of `fake_releases` into the folder."""
        recipe(self.folder, name, program, more)


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases"), 6) as served:
        yield served


@pytest.fixture
def lab(
    home: Path,
    workplace: Path,
    releases: FakeReleases,
    triage: Triage,
    monkeypatch: pytest.MonkeyPatch,
) -> Lab:
    monkeypatch.setenv("TRIAGE_INDEX_URL", releases.url)
    return Lab(workplace, home, releases, triage)


@pytest.fixture
def in_time() -> Iterator[None]:
    """Stop a command that hangs."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
