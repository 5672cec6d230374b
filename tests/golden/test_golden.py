"""Whole screens compared with files in this folder. Other tests assert on values, not
on sentences.

After an intended change of a screen, write the files again with `python -m
tests.golden.test_golden` and read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bisect.letters import case_named, outcome
from tests.nightly.test_night import night_of
from triage.execution.judge import RunResults
from triage.model.outcome import Measured, Probe
from triage.model.revision import Revision
from triage.report.formats import rendered
from triage.report.night import night_document
from triage.report.tables import run_document

FOLDER = Path(__file__).parent


def nightly_screen() -> str:
    histories = {
        "comes-and-goes": "PPPPFFPP",
        "stays": "PPPFFFFF",
        "fixed": "FFFFPPPP",
        "other": "FFFFGGPP",
        "fine": "PPPPPPPP",
    }
    night = replace(night_of(histories, old=1, new=4), seconds=2.0)
    return rendered("text", night, night_document)


def run_screen() -> str:
    letters = {
        "softmax": "PF",
        "matmul[size=64]": "FF",
        "matmul[size=128]": "FF",
        "attention": "UP",
        "add": "PP",
        "sub": "PP",
    }
    probes = [
        Probe(
            case_named(case),
            Revision(version),
            version,
            outcome(letter),
            Measured(1.0, 1.0, 100.0),
            cached=False,
        )
        for case, row in letters.items()
        for version, letter in zip(("1.0.0", "1.1.0"), row, strict=True)
    ]
    return rendered("text", RunResults.of(probes), run_document)


SCREENS: dict[str, Callable[[], str]] = {
    "run": run_screen,
    "nightly": nightly_screen,
}


@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert SCREENS[name]() == (FOLDER / f"{name}.txt").read_text("utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    for name, screen in SCREENS.items():
        (FOLDER / f"{name}.txt").write_text(screen(), "utf-8")
