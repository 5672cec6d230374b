"""A small `make torture` with a fixed seed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.torture.__main__ import main


@pytest.mark.slow
def test_the_program_survives_every_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sealed compilers write their log below the folder of all tests
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["--kills", "10", "--seed", "7"]) == 0
