"""The documentation shows the output that the commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

_BLOCK = re.compile(
    r"^```\n\$ triage (?P<words>[^\n]+)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL
)
# These differ between machines and days: times, bytes written, written folders, results
# on other installed releases, what earlier commands left in the cache, dates of upload,
# which not every index has, and the values of a wrong result.
_NUMBERS = re.compile(
    r"\b\d+\.\d+ s\b|\b\d+ bytes written|(?<=element )\d+ is [^,]+|(?<=max abs error )\S+|(?<=max rel error )\S+"
)
_ABSENT = re.compile(r" \(\d{4}-\d\d-\d\d\)|, \d+ cache hits?")
_MACHINES = re.compile(r"^ +(?:versions|cost|written|source) ")
_ELSEWHERE = ("--repo", "--out")


def documented_commands() -> Iterator[object]:
    """Yield every command that the documentation shows with its output, those of the
    README first.
    """
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        columns = "100" if path.name == "README.md" else "120"
        for block in _BLOCK.finditer(path.read_text()):
            marks = [] if path.name == "README.md" else [pytest.mark.slow]
            name = f"{path.stem}: {block['words'][:60]}"
            words = shlex.split(block["words"])
            clone = clone_of(words)
            if clone and not clone.is_dir():
                marks.append(pytest.mark.skip(f"there is no clone at {clone}"))
            if lines := block["output"].splitlines():
                yield pytest.param(words, lines, columns, id=name, marks=marks)


def clone_of(words: list[str]) -> Path | None:
    """Return the clone of a whole history that a command needs, such as `~/cython`."""
    named = [word for word in words if word.startswith("~/")]
    return Path(named[0]).expanduser() if named else None


def normalised_line(line: str) -> str:
    """Remove what differs between runs."""
    return re.sub(r" +", " ", _NUMBERS.sub("#", _ABSENT.sub("", line))).strip()


def without_machine_options(words: list[str]) -> list[str]:
    """Remove the options that name a folder of the author's machine, but for a clone
    that a command is about.
    """
    if clone := clone_of(words):
        return [str(clone) if word.startswith("~/") else word for word in words]
    remaining = list(words)
    for option in _ELSEWHERE:
        if option in remaining:
            index = remaining.index(option)
            del remaining[index : index + 2]
    return remaining


@pytest.mark.real
@pytest.mark.parametrize(("words", "lines", "columns"), list(documented_commands()))
def test_the_output_is_as_documented(
    triage: Triage,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    lines: list[str],
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = triage(*without_machine_options(words), cwd=ROOT)
    output = [normalised_line(line) for line in done.stdout.splitlines()]
    expected = [
        normalised_line(line)
        for line in lines
        if line.strip() not in ("", "...") and not _MACHINES.match(line)
    ]
    assert expected
    rest = iter(output)
    missing = [line for line in expected if not any(line == entry for entry in rest)]
    assert not missing, "\n".join(
        [*missing, "--- output:", *output, done.stderr[-2000:]]
    )
