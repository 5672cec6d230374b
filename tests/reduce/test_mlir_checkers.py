"""Which toolchains check smaller programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reduce.test_run_values import PROGRAM
from triage.execution.mlir_tools import Reader
from triage.reduce.frontends.mlir import mlir_form
from triage.reduce.frontends.mlir_program import Checker


class FakeReader(Reader):
    """Refuses programs with a word."""

    def __init__(self, refused: str = "nothing") -> None:
        self.refused = refused

    def generic_form(self, path: Path, *, elide: bool = False) -> str | None:
        return path.read_text()

    def generic_if_valid(self, text: str) -> str | None:
        return None if self.refused in text else text


@pytest.mark.parametrize(
    ("refused", "checks", "notes"),
    [("nothing", True, 0), ("arith.mulf", False, 1)],
)
def test_a_release_that_refuses_the_original_checks_nothing(
    tmp_path: Path, refused: str, checks: bool, notes: int
) -> None:
    (tmp_path / "input.mlir").write_text(PROGRAM)
    checker = Checker(FakeReader(), FakeReader(refused))
    form = mlir_form(checker)
    [program] = form.open(tmp_path / "input.mlir")
    assert program.canonical is not None
    assert (checker.newest is not None) == checks
    assert len(form.notes) == notes


def test_a_release_that_reads_the_original_checks_smaller_programs(
    tmp_path: Path,
) -> None:
    (tmp_path / "input.mlir").write_text(PROGRAM)
    newest = FakeReader()
    checker = Checker(FakeReader(), newest)
    [program] = mlir_form(checker).open(tmp_path / "input.mlir")
    newest.refused = "arith.mulf"
    assert program.canonical is None
