"""Reads reproducers from their folders and compiles them again."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from triage.compilers.registry import load_cases
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob, in_job_order
from triage.model.case import Case
from triage.model.content import read_bytes
from triage.model.errors import BadInput
from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import Exit, ProbeResult, exit_without_answer
from triage.recipes.values import why_unreadable
from triage.reduce.reproducer import LOCAL
from triage.toolchains.registry import (
    ToolchainRef,
    ToolchainRegistry,
    recorded_rev,
)

RECORD = "reproducer.json"
RECIPE = "recipe.yaml"
_LARGEST_RECORD = 64 << 20  # bytes


class ReplayState(StrEnum):
    """The result of a reproducer on a version."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it passes
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded reproducer and its results."""

    reproducer: str
    """The folder."""
    program: Case = field(metadata=UNPRINTED)
    """The reduced case."""
    case: str
    """The name of the original case."""
    signature: str
    bad: str | None
    """The revision that it fails on, unless only the recording machine had that
    compiler.
    """
    versions: tuple[ProbeResult, ...] = ()
    """In the order in which they were named; none before it is compiled."""

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


def open_reproducers(paths: Sequence[Path]) -> tuple[Replay, ...]:
    """Read the reproducers in `paths`: folders of one reproducer, or folders of such
    folders (hidden ones are skipped).

    Raises BadFiles, and BadInput for an unknown compiler.
    """
    reproducers: dict[Path, Replay] = {}
    for path in paths:
        folders = [path]
        if not (path / RECORD).exists():
            folders = sorted(file.parent for file in path.glob(f"[!.]*/{RECORD}"))
        if not folders:
            folder = f"a folder with {RECORD} and {RECIPE}"
            raise BadInput(f"{path} contains no reproducer: {folder}")
        reproducers |= {folder: _open(folder) for folder in folders}
    return tuple(reproducers.values())


def _open(folder: Path) -> Replay:
    path = folder / RECORD
    try:
        record = json.loads(read_bytes(path, _LARGEST_RECORD))
    except OSError as error:
        raise BadInput(f"{path}: {why_unreadable(path, error)}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    match record:
        case {
            "case": str(name),
            "signature": str(signature),
            "bad": {"name": str(bad)},
        }:
            pass
        case _:
            raise BadInput(f"{path}: `case`, `signature` or `bad.name` is missing")
    program, *others = load_cases([folder / RECIPE])
    if others:
        raise BadInput(f"{folder / RECIPE} has a matrix; a reproducer is one program")
    kind, _, metric = signature.partition(":")
    if kind == "metric":
        # between the numbers on the bad and on the good revision
        with suppress(LookupError, TypeError, ValueError):
            details = record["failure"]["details"]
            limit = math.sqrt(float(details["value"]) * float(details["good"]))
            program = replace(program, thresholds=((metric, limit),))
    recorded = None if bad == LOCAL else bad
    return Replay(str(folder), program, name, signature, recorded)


def replay(
    engine: Engine,
    reproducers: Sequence[Replay],
    revs_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions that `revs_of` names for its compiler,
    in order. Leave out reproducers of other compilers.

    Without `revs_of`: on the recorded revision and the newest release.
    """
    counts, jobs = list[int](), list[ProbeJob]()
    for reproducer in reproducers:
        refs = _refs_of(engine.registry, reproducer, revs_of)
        counts.append(len(refs))
        jobs += [ProbeJob(reproducer.program, ref) for ref in refs]
    probes = in_job_order(jobs, engine.probe_all(jobs, "replay"))
    results = map(result_of, probes)
    return tuple(
        replace(reproducer, versions=tuple(islice(results, count)))
        for reproducer, count in zip(reproducers, counts, strict=True)
        if count
    )


def _refs_of(
    registry: ToolchainRegistry,
    reproducer: Replay,
    revs_of: Mapping[str, Sequence[str]] | None,
) -> Collection[ToolchainRef]:
    family, revs = reproducer.program.compiler, ["latest"]
    try:
        if revs_of is not None:
            revs = list(revs_of.get(family, ()))
        elif reproducer.bad:
            revs.insert(0, recorded_rev(reproducer.bad))
    except BadInput as error:
        path = Path(reproducer.reproducer, RECORD)
        raise BadInput(f"{path}: {error}; name a toolchain with -t") from error
    refs = [registry.resolve(rev, family) for rev in revs]
    return {ref.revision.name: ref for ref in refs}.values()


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
