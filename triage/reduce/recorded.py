"""Reproducers read back from their folders, every mistake of every folder told at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput, Problem
from triage.recipes import load_recipes
from triage.reduce.reproducer import LOCAL, RECIPE, RECORD
from triage.toolchains.rev import parse_rev


@dataclass(frozen=True, slots=True)
class Recorded:
    """A reproducer as its folder tells it. case: the small program; original: the case it was made from; bad: REV it was
    seen to fail on, None where that was a compiler which only another machine has.
    """

    folder: Path
    case: Case
    original: str
    signature: str
    bad: str | None

    @property
    def measured(self) -> bool:
        """Whether it stands for a number that grew: what is large on one machine says nothing of another."""
        return self.signature.startswith("metric:")


def open_reproducers(paths: Sequence[Path], failure_names: Collection[str] | None = None) -> tuple[Recorded, ...]:
    """The reproducers in `paths`: folders of one each, and folders of such folders (names that begin with a dot left out).

    failure_names: what a recipe may expect. Raises BadFiles with all that is wrong in any of them.
    """
    problems: list[Problem] = []
    found: dict[Path, Recorded] = {}
    for path in paths:
        for folder in _folders(path, problems):
            if (one := _read(folder, failure_names, problems)) is not None:
                found[folder] = one
    if problems:
        raise BadFiles(list(dict.fromkeys(problems)))
    return tuple(found.values())


def _folders(path: Path, problems: list[Problem]) -> Sequence[Path]:
    if not path.is_dir():
        problems.append(_problem(path, "is no folder; name a reproducer's folder, or a folder of them."))
        return ()
    if (path / RECORD).exists() or (path / RECIPE).exists():
        return (path,)
    inner = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    if not inner:
        problems.append(_problem(path, f"holds no reproducer; one is a folder with {RECORD}, {RECIPE} and the program."))
    return inner


def _read(folder: Path, failure_names: Collection[str] | None, problems: list[Problem]) -> Recorded | None:
    record = _record(folder / RECORD, problems)
    case = _case(folder / RECIPE, failure_names, problems)
    if record is None or case is None:
        return None
    bad = record["bad"]["name"]
    return Recorded(folder, case, record["case"], record["signature"], None if bad == LOCAL else bad)


def _record(path: Path, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
        return None
    except OSError as error:
        problems.append(_problem(path, f"cannot be read: {(error.strerror or str(error)).lower()}."))
        return None
    except UnicodeDecodeError:
        problems.append(_problem(path, "is not UTF-8 text."))
        return None
    except json.JSONDecodeError as error:
        problems.append(Problem(str(path), error.lineno, error.colno, f"is no JSON: {error.msg}."))
        return None
    if not isinstance(data, dict):
        problems.append(_problem(path, "holds no JSON object."))
        return None
    before = len(problems)
    missing = [name for name in ("case", "signature") if not (isinstance(data.get(name), str) and data[name])]
    problems += [_problem(path, f'needs a text "{name}".') for name in missing]
    bad = data.get("bad")
    if not (isinstance(bad, dict) and isinstance(bad.get("name"), str) and bad["name"]):
        problems.append(_problem(path, 'needs "bad", an object with the "name" of the version that fails.'))
    elif bad["name"] != LOCAL:
        try:
            parse_rev(bad["name"], ())
        except BadInput as error:
            problems.append(_problem(path, f'"bad": {error}.'))
    return data if len(problems) == before else None


def _case(path: Path, failure_names: Collection[str] | None, problems: list[Problem]) -> Case | None:
    if not path.exists():
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
        return None
    try:
        cases = load_recipes([path], failure_names)
    except BadFiles as error:
        problems += error.problems
        return None
    if len(cases) != 1:
        problems.append(_problem(path, f"has {len(cases)} cases; a reproducer is one program, without a matrix."))
        return None
    return cases[0]


def _problem(path: Path, message: str) -> Problem:
    return Problem(str(path), None, None, message)
