"""Reads reproducers from their folders and compiles them again on other versions."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from triage.compilers.registry import recipe_families
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.recipes.loader import load_recipes
from triage.reduce.reproducer import LOCAL, RECIPE, RECORD
from triage.toolchains.revision_syntax import parse_rev


@dataclass(frozen=True, slots=True)
class RecordedReproducer:
    """A reproducer as its folder records it.

    case: the reduced program. original: the case it was reduced from. bad: the revision it fails on, None for a compiler
    that only the recording machine had.
    """

    folder: Path
    case: Case
    original: str
    signature: str
    bad: str | None

    @property
    def measured(self) -> bool:
        """Whether it records a number that grew. That number says nothing about another machine."""
        return self.signature.startswith("metric:")


def open_reproducers(paths: Sequence[Path], failure_names: Collection[str] | None = None) -> tuple[RecordedReproducer, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such folders (hidden ones are skipped).

    failure_names: the failures that a recipe may expect. Raises BadFiles with all mistakes in all folders.
    """
    problems: list[Problem] = []
    reproducers: dict[Path, RecordedReproducer] = {}
    for path in paths:
        for folder in _folders(path, problems):
            record = _read_record(folder / RECORD, problems)
            case = _read_case(folder / RECIPE, failure_names, problems)
            if record and case:
                bad = record["bad"]["name"]
                reproducers[folder] = RecordedReproducer(
                    folder, case, record["case"], record["signature"], None if bad == LOCAL else bad
                )
    if problems:
        raise BadFiles(list(dict.fromkeys(problems)))
    return tuple(reproducers.values())


def _folders(path: Path, problems: list[Problem]) -> Sequence[Path]:
    if not path.is_dir():
        problems.append(_problem(path, "is not a folder; name a reproducer's folder, or a folder of them."))
        return ()
    if (path / RECORD).exists() or (path / RECIPE).exists():
        return (path,)
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    if not folders:
        problems.append(_problem(path, f"contains no reproducer: a folder with {RECORD}, {RECIPE} and the program."))
    return folders


def _read_record(path: Path, problems: list[Problem]) -> dict[str, Any] | None:
    before = len(problems)
    data = None
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
    except OSError as error:
        problems.append(_problem(path, f"cannot be read: {(error.strerror or str(error)).lower()}."))
    except UnicodeDecodeError:
        problems.append(_problem(path, "is not UTF-8 text."))
    except json.JSONDecodeError as error:
        problems.append(Problem(str(path), error.lineno, error.colno, f"is not valid JSON: {error.msg}."))
    if len(problems) > before:
        return None
    if not isinstance(data, dict):
        problems.append(_problem(path, "is not a JSON object."))
        return None
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


def _read_case(path: Path, failure_names: Collection[str] | None, problems: list[Problem]) -> Case | None:
    if not path.exists():
        problems.append(_problem(path, "is missing; `triage reduce` writes it."))
        return None
    try:
        cases = load_recipes([path], recipe_families(), failure_names)
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
    """The result of a reproducer on a version."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it compiles
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A reproducer with its probes in the order asked. bad: the probe of the recorded version, None when not asked."""

    recorded: RecordedReproducer
    probes: tuple[Probe, ...]
    bad: Probe | None

    @property
    def status(self) -> ReplayState:
        """The result on the last version."""
        return self.state(self.probes[-1])

    @property
    def holds(self) -> bool | None:
        """Whether the recorded version still fails in the same way; None when it was not asked or is untestable."""
        state = self.state(self.bad) if self.bad else ReplayState.UNTESTABLE
        return None if state is ReplayState.UNTESTABLE else state is ReplayState.REPRODUCES

    @property
    def tested(self) -> bool:
        """Whether the recorded version was testable or, when it was not asked, any version."""
        asked = (self.bad,) if self.bad else self.probes
        return any(self.state(probe) is not ReplayState.UNTESTABLE for probe in asked)

    def state(self, probe: Probe) -> ReplayState:
        """Return the result on one of the versions."""
        match probe.outcome:
            case _ if self.recorded.measured:
                return ReplayState.UNTESTABLE
            case Compiled():
                return ReplayState.FIXED
            case Failed(failure=failure):
                same = failure.signature == self.recorded.signature
                return ReplayState.REPRODUCES if same else ReplayState.CHANGED
            case Untestable():
                return ReplayState.UNTESTABLE

    def reason(self, probe: Probe) -> str | None:
        """Return why a version is untestable; None when it is testable."""
        if isinstance(probe.outcome, Untestable):
            return probe.outcome.reason
        return "it records a number that grew, and that is not measured again" if self.recorded.measured else None


def replay(
    runner: ProbeRunner, reproducers: Sequence[RecordedReproducer], named: Sequence[str] = (), *, fresh: bool = False
) -> tuple[Replay, ...]:
    """Compile each reproducer on the named revisions in order. Default: the recorded revision and the newest release."""
    jobs: list[ProbeJob] = []
    for reproducer in reproducers:
        texts = named or [*([reproducer.bad] if reproducer.bad else []), "latest"]
        refs = {ref.revision.name: ref for ref in (runner.registry.resolve(text, reproducer.case.compiler) for text in texts)}
        jobs += [ProbeJob(reproducer.case, ref, fresh) for ref in refs.values()]
    # Two folders may hold recipes of the same name, so the recipe's file identifies a probe.
    probes = {(probe.case.source, probe.revision.name): probe for probe in runner.probe_all(jobs, "replay")}
    replays = []
    for reproducer in reproducers:
        source = reproducer.case.source
        own = {job.ref.revision.name: probes[source, job.ref.revision.name] for job in jobs if job.case.source == source}
        replays.append(Replay(reproducer, tuple(own.values()), own.get(reproducer.bad or "")))
    return tuple(replays)
