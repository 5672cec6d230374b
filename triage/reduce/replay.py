"""Reads reproducers from their folders and compiles them again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from triage.compilers.registry import load_cases
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.foreign_file import read_bytes
from triage.model.json_form import in_json
from triage.model.outcome import Probe
from triage.model.probe_result import ProbeResult
from triage.recipes.document import why_unreadable
from triage.reduce.reproducer import LOCAL
from triage.toolchains.registry import recorded_rev

RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LARGEST_RECORD = 64 << 20  # bytes
Name = Annotated[str, Field(min_length=1)]


class RecordedVersion(BaseModel):
    """The revision that a reproducer fails on."""

    name: Name


class RecordedFailure(BaseModel):
    """What is read of a recorded failure."""

    details: dict[str, Any] = {}


class ReproducerRecord(BaseModel):
    """What is read of `reproducer.json`."""

    case: Name
    """The name of the case that it was reduced from."""
    signature: Name
    bad: RecordedVersion
    failure: RecordedFailure = RecordedFailure()

    def judged(self, case: Case) -> Case:
        """Return the case with the threshold of a failed number: between those on the
        bad and the good revision.
        """
        kind, _, name = self.signature.partition(":")
        try:
            value, good = (
                float(self.failure.details[key]) for key in ("value", "good")
            )
        except (LookupError, TypeError, ValueError):
            return case
        if kind != "metric":
            return case
        limit = math.sqrt(value * good) or value / 2
        return replace(case, thresholds=((name, limit),))


@dataclass(frozen=True, slots=True)
class RecordedReproducer:
    """A reproducer as its folder records it."""

    folder: Path
    case: Case
    """The reduced program."""
    record: ReproducerRecord

    @property
    def bad(self) -> str | None:
        """The revision that it fails on, unless only the recording machine had that
        compiler.
        """
        if self.record.bad.name == LOCAL:
            return None
        return self.record.bad.name


def open_reproducers(
    paths: Sequence[Path], *, on_recorded: bool = True
) -> tuple[RecordedReproducer, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such
    folders (hidden ones are skipped). `on_recorded`: whether the recorded versions are
    to be compiled.

    Raises BadFiles with the mistakes in all folders, BadInput for an unknown compiler.
    """
    problems: list[Problem] = []
    reproducers: dict[Path, RecordedReproducer] = {}
    for path in paths:
        folders = [path]
        has_reproducer = (path / RECORD).exists() or (path / RECIPE).exists()
        if path.is_dir() and not has_reproducer:
            names = [name for name in path.iterdir() if not name.name.startswith(".")]
            folders = sorted(filter(Path.is_dir, names))
        if not folders:
            message = f"contains no reproducer: a folder with {RECORD} and {RECIPE}."
            problems.append(_problem(path, message))
        for folder in folders:
            try:
                reproducers[folder] = _open(folder, on_recorded=on_recorded)
            except BadFiles as error:
                problems += error.problems
    if problems:
        raise BadFiles(list(dict.fromkeys(problems)))
    return tuple(reproducers.values())


def _open(folder: Path, *, on_recorded: bool) -> RecordedReproducer:
    path = folder / RECORD
    if not folder.is_dir():
        message = "is not a folder; name a reproducer's folder, or a folder of them."
        raise BadFiles([_problem(folder, message)])
    if not path.exists():
        raise BadFiles([_problem(path, "is missing; `triage reduce` writes it.")])
    try:
        content = read_bytes(path, _LARGEST_RECORD)
        record = ReproducerRecord.model_validate_json(content, strict=True)
        if on_recorded and record.bad.name != LOCAL:
            recorded_rev(record.bad.name)
    except ValidationError as error:
        problems = []
        for mistake in error.errors(include_url=False):
            key, text = ".".join(map(str, mistake["loc"])), f"{mistake['msg']}."
            problems.append(_problem(path, f"{key}: {text}" if key else text))
        raise BadFiles(problems) from error
    except OSError as error:
        raise BadFiles([_problem(path, why_unreadable(path, error))]) from error
    except BadInput as error:
        message = f"cannot be used: {error}; name a toolchain with -t."
        raise BadFiles([_problem(path, message)]) from error
    cases = load_cases([folder / RECIPE])
    if len(cases) != 1:
        message = (
            f"has {len(cases)} cases; a reproducer is one program, without a matrix."
        )
        raise BadFiles([_problem(folder / RECIPE, message)])
    return RecordedReproducer(folder, cases[0], record)


def _problem(path: Path, message: str) -> Problem:
    return Problem(str(path), None, None, message)


class ReplayState(StrEnum):
    """The result of a reproducer on a version."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it passes
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A reproducer with its results, in the order in which the versions were named."""

    reproducer: str
    """The folder."""
    case: str
    """The name of the original case."""
    signature: str
    bad: str | None
    """The recorded version."""
    versions: tuple[ProbeResult, ...]

    @in_json
    def states(self) -> dict[str, ReplayState]:
        """The state of each version by its name."""
        return {
            one.toolchain.name: replay_state(one, self.signature)
            for one in self.versions
        }

    @in_json
    def status(self) -> ReplayState:
        """The state on the last version."""
        return replay_state(self.versions[-1], self.signature)

    @in_json
    def holds(self) -> bool | None:
        """Whether the recorded version still fails in the same way; None if it was not
        compiled or is untestable.
        """
        state = self.states.get(self.bad or "")
        if state in (None, ReplayState.UNTESTABLE):
            return None
        return state is ReplayState.REPRODUCES

    @property
    def tested(self) -> bool:
        """Whether the recorded version was testable. If it was not compiled: whether
        any version was.
        """
        recorded = [one for one in self.versions if one.toolchain.name == self.bad]
        return not all(one.untestable for one in recorded or self.versions)


@dataclass(frozen=True, slots=True)
class Replays:
    """Reproducers that were compiled again."""

    reproducers: Sequence[Replay]


def replay(
    engine: Engine,
    reproducers: Sequence[RecordedReproducer],
    revs_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions that `revs_of` names for its compiler,
    in order. Leave out reproducers of other compilers.

    Without `revs_of`: on the recorded revision and the newest release.
    """
    # by the recipe's file: two folders may hold recipes of the same name
    jobs: dict[Path, list[ProbeJob]] = {}
    for one in reproducers:
        texts: Sequence[str] = ["latest"]
        if revs_of is not None:
            texts = revs_of.get(one.case.compiler, ())
        elif one.bad is not None:
            texts = [recorded_rev(one.bad), "latest"]
        named = [engine.registry.resolve(text, one.case.compiler) for text in texts]
        refs = {ref.revision.name: ref for ref in named}
        case = one.record.judged(one.case)
        jobs[case.source] = [ProbeJob(case, ref) for ref in refs.values()]
    probes: dict[tuple[Path, str], Probe] = {}
    asked = [job for of_one in jobs.values() for job in of_one]
    for probe in engine.probe_all(asked, "replay"):
        probes[probe.case.source, probe.revision.name] = probe
    replays = []
    for one in reproducers:
        source, record, bad = one.case.source, one.record, one.bad
        names = [job.ref.revision.name for job in jobs[source]]
        versions = tuple(result_of(probes[source, name]) for name in names)
        if versions:
            replays.append(
                Replay(str(one.folder), record.case, record.signature, bad, versions)
            )
    return tuple(replays)


def replay_state(result: ProbeResult, signature: str) -> ReplayState:
    """Return what a version does with the program of a recorded failure."""
    if result.untestable:
        return ReplayState.UNTESTABLE
    if result.failure is None:
        return ReplayState.FIXED
    if result.failure.signature == signature:
        return ReplayState.REPRODUCES
    return ReplayState.CHANGED


def replay_states(results: Iterable[ProbeResult], signature: str) -> dict[str, str]:
    """Return what each version does with the program of a recorded failure."""
    return {one.toolchain.name: replay_state(one, signature).value for one in results}
