"""Nights that are stored where commands find them, and their site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Asked
from triage.cli.nights import open_nights
from triage.nightly.result import Night
from triage.nightly.store import NightStore

Stored = Callable[..., NightStore]
Site = Callable[..., Path]


@pytest.fixture
def stored(home: Path) -> Stored:
    def store(*records: Night) -> NightStore:
        nights = open_nights()
        for record in records:
            nights.add(record)
        return nights

    return store


@pytest.fixture
def site(stored: Stored, asked: Asked, workplace: Path) -> Site:
    """Stores nights, writes the site and returns its folder."""

    def write(*records: Night) -> Path:
        stored(*records)
        asked("site")
        return workplace / "public"

    return write
