"""The file that lists cases in quarantine: they are run and reported apart, and never fail a night."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from triage.model.case import Case
from triage.model.errors import BadInput, Problem


def quarantined(path: Path, cases: Sequence[Case]) -> tuple[frozenset[str], tuple[Problem, ...]]:
    """Return the names of the cases that a file lists, and a problem for each line that fits no case.

    A line is a case's name, in which `*` and `?` stand for any text and any character; `#` begins a comment.

    Raises:
        BadInput: The file cannot be read.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: the list of cases in quarantine cannot be read: {error}") from error
    names: set[str] = set()
    problems = []
    for number, line in enumerate(lines, 1):
        pattern = line.partition("#")[0].strip()
        fitting = {case.name for case in cases if fnmatchcase(case.name, pattern.replace("[", "[[]"))}
        if pattern and not fitting:
            problems.append(Problem(str(path), number, 1, f"no case is named {pattern}"))
        names |= fitting
    return frozenset(names), tuple(problems)
