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


def documented_commands() -> Iterator[object]:
    """Yield every command that the documentation shows with its output, those of the
    README first.
    """
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        is_readme = path.name == "README.md"
        for words, output in _BLOCK.findall(path.read_text()):
            # a regression of Cython takes seconds
            marks = [] if is_readme or "cython-" in words else [pytest.mark.slow]
            clone = clone_of(words)
            if clone and not clone.is_dir():
                marks.append(pytest.mark.skip(f"there is no clone at {clone}"))
            if output:
                yield pytest.param(
                    words,
                    output,
                    "100" if is_readme else "120",
                    id=f"{path.stem}: {words[:60]}",
                    marks=marks,
                )


def clone_of(words: str) -> Path | None:
    """Return the clone of a whole history that a command needs, such as `~/cython`."""
    named = re.search(r"~/\S+", words)
    return Path(named[0]).expanduser() if named else None


def normalised_lines(text: str) -> list[str]:
    """Return the lines without what differs between runs."""
    text = re.sub(r" +", " ", _NUMBERS.sub("#", _ABSENT.sub("", text)))
    return [line.strip() for line in text.splitlines()]


@pytest.mark.real
@pytest.mark.parametrize(("words", "lines", "columns"), [*documented_commands()])
def test_the_output_is_as_documented(
    triage: Triage,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    lines: str,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    if clone := clone_of(words):
        words = re.sub(r"~/\S+", str(clone), words)
    else:  # folders of the author's machine
        words = re.sub(r"--(?:repo|out) \S+", "", words)
    done = triage(*shlex.split(words), cwd=ROOT)
    output = normalised_lines(done.stdout)
    shown = [line for line in lines.splitlines() if not _MACHINES.match(line)]
    expected = [
        line for line in normalised_lines("\n".join(shown)) if line not in ("", "...")
    ]
    assert expected
    rest = iter(output)
    missing = [line for line in expected if not any(line == entry for entry in rest)]
    report = [*missing, "--- output:", *output, done.stderr[-2000:]]
    assert not missing, "\n".join(report)
