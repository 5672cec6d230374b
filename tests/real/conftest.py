from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def shares_toolchains(shared_home: Path) -> None:
    """Use the user's toolchains in every test of this folder."""
