"""Data files of the program are parsed once, and again when one of them changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from triage.model import content
from triage.model.content import cached_in_file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept files."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    module = tmp_path / "package" / "module.py"
    monkeypatch.setattr(content, "__file__", str(module))
    return module.parent / "__pycache__"


def test_a_file_is_read_once_and_again_when_it_changes_or_the_copy_is_damaged(
    tmp_path: Path, place: Path
) -> None:
    source = tmp_path / "words.txt"
    source.write_text("a b")
    place.parent.mkdir()
    read: list[str] = []

    def words() -> list[str]:
        read.append(source.read_text())
        return read[-1].split()

    assert [cached_in_file("words", [source], words) for _ in range(3)] == [
        ["a", "b"]
    ] * 3
    assert len(read) == 1
    source.write_text("a b c")
    assert cached_in_file("words", [source], words) == ["a", "b", "c"]
    [copy] = place.iterdir()
    copy.write_bytes(b"\x80\x05garbage")
    assert cached_in_file("words", [source], words) == ["a", "b", "c"]
    assert len(read) == 3
