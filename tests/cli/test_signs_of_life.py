"""A command that takes longer than a second says on stderr what it does, unless it is
told to be quiet.
"""

from __future__ import annotations

import select
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_cli import TRIAGE
from triage.cli.command import LiveBars


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
        ready = select.select([process.stderr], [], [], 30 if shown else 2)[0]
        assert bool(ready) == shown
        out, rest = process.communicate(
            "m.mlir:1:1: error: 'a.b' op failed to verify\n", timeout=30
        )
    assert process.returncode == 1
    assert "parse-error" in out or "verif" in out
    assert ("classify" in rest) == shown


def test_a_bar_is_removed_once() -> None:
    """A reduction finishes its task itself, and when it leaves the block."""
    shown = LiveBars()
    with shown.task("reduce") as task:
        task.advance()
        task.finish()
    assert shown.bars.tasks == []
