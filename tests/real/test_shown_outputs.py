"""What the documents show of an answer is what the command answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

_BLOCK = re.compile(r"^```\n\$ triage (?P<words>[^\n]+)\n(?P<shown>.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from machine to machine and from day to day: times, bytes written with them, the folder that was written,
# what other releases make of it, which depends on which are installed, and days of upload, which not every index tells.
_NUMBERS = re.compile(r"\b\d+\.\d+ s\b|\b\d+ bytes written")
_UPLOADED = re.compile(r" \(\d{4}-\d\d-\d\d\)")
_MACHINES = re.compile(r"^ +(?:versions|cost|written|source) ")
_ELSEWHERE = ("--repo", "--out")


def shown() -> Iterator[object]:
    """Every command that is shown with its answer, the README's first."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for found in _BLOCK.finditer(path.read_text()):
            slow = () if path.name == "tutorial.md" else (pytest.mark.slow,)
            name = f"{path.stem}: {found['words'][:60]}"
            yield pytest.param(shlex.split(found["words"]), found["shown"].splitlines(), id=name, marks=slow)


def plain(line: str) -> str:
    """The line without what no two runs have in common."""
    return re.sub(r" +", " ", _NUMBERS.sub("#", _UPLOADED.sub("", line))).strip()


def told(words: list[str]) -> list[str]:
    """The words without what only the writer's machine has."""
    kept = list(words)
    for option in _ELSEWHERE:
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return kept


@pytest.mark.real
@pytest.mark.parametrize(("words", "lines"), list(shown()))
def test_an_answer_is_as_shown(
    shared_home: Path, triage: Triage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], lines: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = [str(ROOT / word) if word.startswith(("recipes/", "reproducers/")) else word for word in told(words)]
    done = triage(*words)
    said = [plain(line) for line in done.stdout.replace(f"{ROOT}/", "").splitlines()]
    expected = [plain(line) for line in lines if line.strip() not in ("", "...") and not _MACHINES.match(line)]
    assert expected
    rest = iter(said)
    missing = [line for line in expected if not any(line == one for one in rest)]
    assert not missing, "\n".join([*missing, "--- was said:", *said, done.stderr[-2000:]])
