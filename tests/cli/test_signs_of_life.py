"""A command that takes longer than a second says on stderr what it does, unless it is
told to be quiet.
"""

from __future__ import annotations

import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.test_cli import TRIAGE
from triage.cli.screen import LogLines


@pytest.mark.parametrize(("words", "shown"), [((), True), (("-q",), False)])
def test_classify_names_what_it_reads_while_nothing_arrives(
    home: Path, workplace: Path, words: tuple[str, ...], shown: bool
) -> None:
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(
        [*TRIAGE, *words, "classify", "-"], cwd=workplace, text=True, **pipes
    ) as process:
        assert process.stderr is not None
        ready = select.select([process.stderr], [], [], 30 if shown else 4)[0]
        assert bool(ready) == shown
        out, rest = process.communicate(
            "m.mlir:1:1: error: 'a.b' op failed to verify\n", timeout=30
        )
    assert process.returncode == 1
    assert "parse-error" in out or "verif" in out
    assert ("classify" in rest) == shown


def test_many_compiles_leave_few_lines_that_say_which(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress = LogLines(quiet=False)
    for number in range(60):  # each takes two seconds
        task = progress.task(f"compile  case on 3.{number}.0", total=1)
        clock[0] += 2
        task.advance()
        task.finish()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert all(line.startswith("compile  case on 3.") for line in lines)
    several = progress.task("nightly", total=9)
    clock[0] += 20
    several.advance(3)
    several.finish()
    assert capsys.readouterr().err == "nightly  3/9\n"
