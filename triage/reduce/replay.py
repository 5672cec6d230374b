"""Reproducers read back from their folders, every mistake of every folder told at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.outcome import Compiled, Failed, Outcome, Probe, Untestable
from triage.recipes import load_recipes
from triage.reduce.reproducer import LOCAL, RECIPE, RECORD
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.revision_syntax import parse_rev


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


class ReplayState(StrEnum):
    """What a version makes of a reproducer."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it compiles
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A reproducer on the versions that were asked, in that order; its status is what the last one makes of it. bad: the
    probe of the version it was recorded on, None where that was not asked.
    """

    recorded: Recorded
    probes: tuple[Probe, ...]
    bad: Probe | None

    @property
    def status(self) -> ReplayState:
        """What the last version makes of it."""
        return self.finding(self.probes[-1])

    @property
    def holds(self) -> bool | None:
        """Whether it still fails, in the same way, on the version it was recorded on; None where that was not asked or
        could not be tested.
        """
        finding = self.finding(self.bad) if self.bad else ReplayState.UNTESTABLE
        return None if finding is ReplayState.UNTESTABLE else finding is ReplayState.REPRODUCES

    @property
    def tested(self) -> bool:
        """Whether it can be told if the reproducer is as it was: by the recorded version, by any where that was not asked."""
        asked = (self.bad,) if self.bad else self.probes
        return any(self.finding(probe) is not ReplayState.UNTESTABLE for probe in asked)

    def finding(self, probe: Probe) -> ReplayState:
        """What one of the versions makes of it."""
        if self.recorded.measured:
            return ReplayState.UNTESTABLE
        return _finding(probe.outcome, self.recorded.signature)

    def reason(self, probe: Probe) -> str | None:
        """Why a version is untestable; None where it is not."""
        if isinstance(probe.outcome, Untestable):
            return probe.outcome.reason
        return "it stands for a number that grew, which is not measured again" if self.recorded.measured else None


def _finding(outcome: Outcome, signature: str) -> ReplayState:
    match outcome:
        case Compiled():
            return ReplayState.FIXED
        case Failed(failure=failure):
            return ReplayState.REPRODUCES if failure.signature == signature else ReplayState.CHANGED
        case Untestable():
            return ReplayState.UNTESTABLE


def replay(
    bench: ProbeRunner, reproducers: Sequence[Recorded], named: Sequence[str] = (), *, fresh: bool = False
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions named, in that order; without any, on the one it was recorded on and on the
    newest release.
    """
    asked = {one.folder: _places(bench, one, named) for one in reproducers}
    jobs = [ProbeJob(one.case, place, fresh) for one in reproducers for place in asked[one.folder]]
    # Two folders may hold recipes of one name, so that probes are told apart by the recipe's file.
    found = {(probe.case.source, probe.revision.name): probe for probe in bench.probe_all(jobs, "replay")}
    return tuple(_replay(one, asked[one.folder], found) for one in reproducers)


def _replay(one: Recorded, places: Iterable[ToolchainRef], found: Mapping[tuple[Path, str], Probe]) -> Replay:
    probes = {place.revision.name: found[one.case.source, place.revision.name] for place in places}
    return Replay(one, tuple(probes.values()), probes.get(one.bad) if one.bad else None)


def _places(bench: ProbeRunner, one: Recorded, named: Sequence[str]) -> list[ToolchainRef]:
    texts = named or [*([one.bad] if one.bad else []), "latest"]
    places = [bench.shed.place(text, one.case.compiler) for text in texts]
    return list({place.revision.name: place for place in places}.values())
