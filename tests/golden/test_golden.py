"""Whole screens compared with files in this folder. Other tests assert on values, not
on sentences.

After an intended change of a screen, write the files again with `python -m
tests.golden.test_golden` and read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bisect.letters import case_named, outcome
from tests.nightly.test_compare import night_of
from triage.bisect.history import Histories, History
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.cli.app import app
from triage.execution.judge import result_of
from triage.execution.results import RunResults
from triage.model.outcome import Cause, Failed, Measured, Probe, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.report.bisection import bisect_document, history_document
from triage.report.formats import rendered
from triage.report.night import night_document
from triage.report.runs import run_document

FOLDER = Path(__file__).parent


def help_screen() -> str:
    text = (
        CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
        .invoke(app, ["--help"], prog_name="triage")
        .stdout
    )
    # Typer draws the boxes and the types of options differently from version to
    # version.
    lines = (line.strip(" │╭╮╰╯─").replace("<bool>", "") for line in text.splitlines())
    return "\n".join(" ".join(line.split()) for line in lines if line) + "\n"


def nightly_screen() -> str:
    histories = {
        "comes-and-goes": "PPPPFFPP",
        "stays": "PPPFFFFF",
        "fixed": "FFFFPPPP",
        "other": "FFFFGGPP",
        "fine": "PPPPPPPP",
    }
    return rendered(
        "text", replace(night_of(histories, old=1, new=4), seconds=2.0), night_document
    )


def bisect_screen() -> str:
    failed = outcome("F")
    assert isinstance(failed, Failed)
    before, after = (
        Revision("1.1.0", "a" * 40, "2025-01-01"),
        Revision("1.2.0", "b" * 40, "2025-02-01"),
    )
    bisection = Bisection(
        "softmax",
        BisectKind.REGRESSION,
        Answer.CULPRIT,
        before,
        after,
        (Suspect(after.name, after.commit, after.date, probability=1.0),),
        confirmed=True,
        failure=failed.failure,
        probes=5,
        rounds=2,
        cached=1,
        untestable=(
            ProbeResult(
                case="softmax",
                recipe="softmax",
                toolchain=Revision("1.0.0"),
                status=Status.UNTESTABLE,
                reason="does not know the flag --iree-x",
                cause=Cause.FLAG,
            ),
        ),
    )
    return rendered("text", bisection, partial(bisect_document, compiler="iree"))


def probes(**letters: str) -> list[list[Probe]]:
    """Return a row of probes for each case, with a letter for each release."""
    names = [f"1.{number}.0" for number in range(len(next(iter(letters.values()))))]
    cases = {
        name.replace("_", "[size=") + "]" * ("_" in name): row
        for name, row in letters.items()
    }
    return [
        [
            Probe(
                case_named(case),
                Revision(name),
                name,
                outcome(letter),
                Measured(1.0, 1.0, 100.0),
                cached=False,
            )
            for name, letter in zip(names, row, strict=True)
        ]
        for case, row in cases.items()
    ]


def run_screen() -> str:
    found = probes(
        softmax="PF",
        matmul_64="FF",
        matmul_128="FF",
        attention="UP",
        add="PP",
        sub="PP",
    )
    return rendered(
        "text",
        RunResults.of([probe for row in found for probe in row]),
        run_document,
    )


def history_screen() -> str:
    found = probes(matmul_64="UUPFFP", matmul_128="UUPFFP", add="UUPPPP")
    return rendered(
        "text",
        Histories(
            [History(row[0].case, tuple(map(result_of, row)), 3) for row in found]
        ),
        history_document,
    )


SCREENS: dict[str, Callable[[], str]] = {
    "help": help_screen,
    "run": run_screen,
    "history": history_screen,
    "nightly": nightly_screen,
    "bisect": bisect_screen,
}


@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert SCREENS[name]() == (FOLDER / f"{name}.txt").read_text("utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    for name, screen in SCREENS.items():
        (FOLDER / f"{name}.txt").write_text(screen(), "utf-8")
