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
from triage.model.exit_codes import Exit, exit_without_answer
from triage.model.foreign_file import read_bytes
from triage.model.json_form import in_json
from triage.model.probe_result import ProbeResult
from triage.recipes.values import why_unreadable
from triage.reduce.reproducer import LOCAL
from triage.toolchains.registry import recorded_rev

RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LARGEST_RECORD = 64 << 20  # bytes
Name = Annotated[str, Field(min_length=1)]


class RecordedVersion(BaseModel):
    """The revision that a reproducer fails on."""

    name: Name


class ReproducerRecord(BaseModel):
    """What is read of `reproducer.json`."""

    case: Name
    """The name of the case that it was reduced from."""
    signature: Name
    bad: RecordedVersion
    failure: dict[str, Any] = {}

    def judged(self, case: Case) -> Case:
        """Return the case with the threshold of a failed number: between those on the
        bad and the good revision.
        """
        kind, _, name = self.signature.partition(":")
        if kind != "metric":
            return case
        try:
            details = self.failure["details"]
            limit = math.sqrt(float(details["value"]) * float(details["good"]))
        except (LookupError, TypeError, ValueError):
            return case
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


def open_reproducers(paths: Sequence[Path]) -> tuple[RecordedReproducer, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such
    folders (hidden ones are skipped).

    Raises BadFiles with the mistakes in all folders, BadInput for an unknown compiler.
    """
    problems: list[Problem] = []
    reproducers: dict[Path, RecordedReproducer] = {}
    for path in paths:
        folders = [path]
        if not (path / RECORD).exists():
            folders = sorted(file.parent for file in path.glob(f"[!.]*/{RECORD}"))
        if not folders:
            message = f"contains no reproducer: a folder with {RECORD} and {RECIPE}."
            problems.append(Problem(str(path), None, None, message))
        for folder in folders:
            try:
                reproducers[folder] = _open(folder)
            except BadFiles as error:
                problems += error.problems
    if problems:
        raise BadFiles(problems)
    return tuple(reproducers.values())


def _open(folder: Path) -> RecordedReproducer:
    path = folder / RECORD
    try:
        content = read_bytes(path, _LARGEST_RECORD)
        record = ReproducerRecord.model_validate_json(content, strict=True)
        case, *others = load_cases([folder / RECIPE])
        if not others:
            return RecordedReproducer(folder, case, record)
        messages = [f"{RECIPE} has a matrix; a reproducer is one program."]
    except ValidationError as error:
        messages = [
            ": ".join([*map(str, mistake["loc"]), f"{mistake['msg']}."])
            for mistake in error.errors(include_url=False)
        ]
    except OSError as error:
        messages = [why_unreadable(path, error)]
    raise BadFiles([Problem(str(path), None, None, message) for message in messages])


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
        return replay_states(self.versions, self.signature)

    @in_json
    def status(self) -> ReplayState:
        """The state on the last version."""
        return [*self.states.values()][-1]

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
        recorded = [
            result for result in self.versions if result.toolchain.name == self.bad
        ]
        return not all(result.untestable for result in recorded or self.versions)


@dataclass(frozen=True, slots=True)
class Replays:
    """Reproducers that were compiled again."""

    reproducers: Sequence[Replay]

    @property
    def exit(self) -> Exit:
        """FOUND if a recorded version no longer fails as recorded, else why a
        reproducer could not be tested.
        """
        if any(replay.holds is False for replay in self.reproducers):
            return Exit.FOUND
        untested = [replay for replay in self.reproducers if not replay.tested]
        if not untested:
            return Exit.OK
        causes = [version.cause for replay in untested for version in replay.versions]
        return exit_without_answer(*causes)


def replay(
    engine: Engine,
    reproducers: Sequence[RecordedReproducer],
    revs_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions that `revs_of` names for its compiler,
    in order. Leave out reproducers of other compilers.

    Without `revs_of`: on the recorded revision and the newest release.
    """
    planned: list[tuple[RecordedReproducer, list[ProbeJob]]] = []
    for reproducer in reproducers:
        revs = _revs_of(reproducer, revs_of)
        case = reproducer.record.judged(reproducer.case)
        refs = [engine.registry.resolve(rev, case.compiler) for rev in revs]
        by_name = {ref.revision.name: ref for ref in refs}
        planned.append((reproducer, [ProbeJob(case, ref) for ref in by_name.values()]))
    probes = engine.probe_all([job for _, jobs in planned for job in jobs], "replay")
    # by the recipe's file: two folders may hold recipes of the same name
    results = {
        (probe.case.source, probe.revision.name): result_of(probe) for probe in probes
    }
    return tuple(
        Replay(
            str(reproducer.folder),
            reproducer.record.case,
            reproducer.record.signature,
            reproducer.bad,
            tuple(results[job.case.source, job.ref.revision.name] for job in jobs),
        )
        for reproducer, jobs in planned
        if jobs
    )


def _revs_of(
    reproducer: RecordedReproducer, revs_of: Mapping[str, Sequence[str]] | None
) -> Sequence[str]:
    if revs_of is not None:
        return revs_of.get(reproducer.case.compiler, ())
    if reproducer.bad is None:
        return ["latest"]
    try:
        return [recorded_rev(reproducer.bad), "latest"]
    except BadInput as error:
        path = reproducer.folder / RECORD
        raise BadInput(f"{path}: {error}; name a toolchain with -t") from error


def replay_states(
    results: Iterable[ProbeResult], signature: str
) -> dict[str, ReplayState]:
    """Return what each version does with the program of a recorded failure."""
    states = {}
    for result in results:
        state = ReplayState.CHANGED
        if result.untestable:
            state = ReplayState.UNTESTABLE
        elif result.failure is None:
            state = ReplayState.FIXED
        elif result.failure.signature == signature:
            state = ReplayState.REPRODUCES
        states[result.toolchain.name] = state
    return states
