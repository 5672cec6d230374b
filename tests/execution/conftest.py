"""A cluster for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.cluster_lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.scheduler()
    try:
        yield lab
    finally:
        for name in list(lab.processes):
            lab.end(name)
