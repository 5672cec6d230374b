"""Calls the program within the process of the test, which is ten times as fast as another process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from triage.cli.app import app


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["triage", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app(prog_name="triage")
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run
