"""Whole screens compared with files in this folder. Other tests assert on values, not
on sentences.

After an intended change of a screen, write the files again with `python -m
tests.golden.test_golden` and read the diff.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bisect.letters import case_named, outcome
from tests.nightly.test_night import night_of
from triage.execution.judge import RunResults
from triage.model.outcome import Measured, Probe
from triage.model.revision import Revision
from triage.report.document import rendered
from triage.report.night import night_document
from triage.report.tables import run_document

FOLDER = Path(__file__).parent
# What each release makes of a case.
NIGHTLY = {
    "comes-and-goes": "PPPPFFPP",
    "stays": "PPPFFFFF",
    "fixed": "FFFFPPPP",
    "other": "FFFFGGPP",
    "fine": "PPPPPPPP",
}
RUN = {
    "softmax": "PF",
    "matmul[size=64]": "FF",
    "matmul[size=128]": "FF",
    "attention": "UP",
    "add": "PP",
    "sub": "PP",
}


def screens() -> dict[str, str]:
    times = Measured(1.0, 1.0, 100.0)
    probes = [
        Probe(case_named(case), revision, "1.0.0", outcome(letter), times, cached=False)
        for case, letters in RUN.items()
        for number, letter in enumerate(letters)
        for revision in [Revision(f"1.{number}.0")]
    ]
    night = replace(night_of(NIGHTLY, old=1, new=4), seconds=2.0)
    return {
        "run.txt": rendered("text", RunResults.of(probes), run_document),
        "nightly.txt": rendered("text", night, night_document),
    }


def test_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name, screen in screens().items():
        assert screen == (FOLDER / name).read_text("utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    for name, screen in screens().items():
        (FOLDER / name).write_text(screen, "utf-8")
