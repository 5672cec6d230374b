"""What tests of commands share: JSON answers, recipes of pasted texts, and an end to
commands that hang.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Asked, Triage
from tests.fake_releases import FakeReleases, fake_releases

SECONDS = 120  # more than any of the commands takes on a busy machine
NEW = ("recipe", "new", "mine.yaml", "--input", "-")


class Hangs(BaseException):
    """The command takes too long."""


@pytest.fixture
def in_time() -> Iterator[None]:
    """Stop a command that hangs."""

    def stop(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def releases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FakeReleases]:
    """An index with as many releases as `RELEASES` of the module says."""
    folder = tmp_path_factory.mktemp("releases")
    with fake_releases(folder, request.module.RELEASES) as served:
        yield served


@pytest.fixture
def released(releases: FakeReleases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", releases.url)


@dataclass(frozen=True)
class Made:
    """A recipe that was made from a text."""

    values: Any
    program: str
    answer: Any
    """What the command says of it."""


FromText = Callable[..., Made]


@pytest.fixture
def from_text(asked: Asked, home: Path, workplace: Path) -> FromText:
    """Makes a valid recipe from a pasted text; its files are removed again."""

    def make(text: str, *words: object) -> Made:
        answer = asked(*NEW, *words, input=text)
        path = workplace / "mine.yaml"
        assert asked("recipe", "validate", path)["problems"] == []
        values = yaml.safe_load(path.read_text())
        program = (workplace / values["input"]).read_text()
        for written in workplace.glob("mine.*"):
            written.unlink()
        return Made(values, program, answer)

    return make


@pytest.fixture
def refused(triage: Triage, home: Path, workplace: Path) -> Callable[..., str]:
    """Has a pasted text refused, which leaves no file, and returns the message."""

    def refuse(text: str, *words: object) -> str:
        done = triage(*NEW, *words, input=text)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
        assert not [*workplace.glob("mine.*")]
        return done.stderr

    return refuse
