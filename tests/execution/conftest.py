from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.cluster_lab import Lab
from tests.workshop import workshop  # noqa: F401


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A cluster without workers."""
    lab = Lab(tmp_path)
    lab.scheduler()
    try:
        yield lab
    finally:
        for name in list(lab.processes):
            lab.end(name)
