"""What the passes of a good and a bad compiler show about the commit between them, before any other probe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256

from pydantic import TypeAdapter, ValidationError

from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.prior import Clues
from triage.execution.engine import Engine
from triage.git_history import Repository
from triage.git_history.repository import GitRefused
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted, TriageError
from triage.model.outcome import Untestable
from triage.toolchains.registry import ToolchainRef

_TIME_LIMIT = 60.0  # seconds for each of the two compiles that print their IR


@dataclass(frozen=True, slots=True)
class PassEvidence:
    """Passes, source files and commits that a difference between two compilers points at."""

    passes: tuple[str, ...]
    """Class names."""
    files: tuple[str, ...]
    """Paths relative to the repository."""
    phase: str | None
    """Where the difference appears, if that is known."""
    summary: str
    """Sentences about the difference."""
    chooses: bool = False
    """The difference is in a choice, such as tile sizes."""
    one_sided: tuple[str, ...] = ()
    """Passes that changed the program with one of the compilers only."""
    pipeline: tuple[str, ...] = ()
    """Commits that added those passes to a pipeline or removed them."""

    def added_to(self, clues: Clues) -> Clues:
        """Add this evidence to clues. The phase of the difference replaces the phase that fails."""
        return replace(
            clues,
            passes=(*clues.passes, *self.passes),
            files=(*clues.files, *self.files),
            phase=self.phase or clues.phase,
            chooses=self.chooses,
            one_sided=self.one_sided,
            pipeline=frozenset(self.pipeline),
        )


_EVIDENCE: TypeAdapter[PassEvidence | None] = TypeAdapter(PassEvidence | None)


def pass_evidence(
    runner: Engine, case: Case, good: ToolchainRef, bad: ToolchainRef, repository: Repository | None = None
) -> PassEvidence | None:
    """Compare the passes of two compilers. Returns None if they show nothing or the IR cannot be printed.

    Two compiles, each ended after a minute. The evidence is cached on disk for a bisect that goes on another day.
    """
    key = _cache_key(runner, case, good, bad)
    if key is None:
        return _compare(runner, case, good, bad, repository)
    cache = runner.registry.workspace.state("pass evidence")
    if stored := cache.get(key):
        with suppress(ValidationError):
            return _EVIDENCE.validate_python(stored["evidence"])
    evidence = _compare(runner, case, good, bad, repository)
    cache.put(key, {"evidence": _EVIDENCE.dump_python(evidence, mode="json")})
    return evidence


def _cache_key(runner: Engine, case: Case, good: ToolchainRef, bad: ToolchainRef) -> str | None:
    """The key of the evidence about these compilers and this program; None where one of them cannot be obtained."""
    try:
        identities = [runner.registry.obtain(ref).identity for ref in (good, bad)]
    except TriageError:
        return None
    prepared = runner.planner.input_of(case)
    if isinstance(prepared, Untestable):
        return None
    key = ("7", *identities, prepared.digest, case.target, case.flags, case.phase)
    return sha256(repr(key).encode()).hexdigest()


def _compare(
    runner: Engine, case: Case, good: ToolchainRef, bad: ToolchainRef, repository: Repository | None
) -> PassEvidence | None:
    try:
        found = attribute(runner, case, good, bad, repository, Depth(phases=False, excerpts=False, patience=_TIME_LIMIT))
    except Interrupted:
        raise
    except TriageError as error:
        runner.progress.note(f"the passes of {good.revision.name} and {bad.revision.name} cannot be compared: {error}")
        return None
    one_sided = tuple(sorted({name.name for name in found.one_sided}))
    evidence = PassEvidence(
        found.passes,
        found.files,
        found.phase,
        _summary(found) if found.passes else "",
        any(diverging.choices for diverging in (found.persistent, found.decided) if diverging),
        one_sided,
    )
    if repository is not None and (pipeline := _pipeline_between(runner, repository, one_sided, good, bad)):
        text = f"{len(pipeline)} of the commits change which passes run"
        evidence = replace(evidence, pipeline=pipeline, summary="; ".join(filter(None, [evidence.summary, text])))
    return evidence if evidence.passes or evidence.pipeline else None


def _pipeline_between(
    runner: Engine, repository: Repository, one_sided: Sequence[str], good: ToolchainRef, bad: ToolchainRef
) -> tuple[str, ...]:
    """The commits between two compilers that add or remove the passes of one side; empty where the clone lacks one."""
    try:
        first, last = (repository.resolve(runner.registry.obtain(ref).revision.commit or "") for ref in (good, bad))
        is_fix = not repository.ask("rev-list", "--max-count=1", f"{first}..{last}")
        return pipeline_commits(repository, one_sided, *((last, first) if is_fix else (first, last)))
    except (BadInput, GitRefused):
        return ()


def pipeline_commits(repository: Repository, passes: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """The commits that add one of the passes to a pipeline or remove it."""
    names = "|".join(re.escape(name.removesuffix("Pass")) for name in passes)
    if not names:
        return ()
    words = ("log", "--first-parent", "-m", "--format=%H", "-G", rf"\bcreate({names})(Pass)?\b", f"{old}..{new}", "--")
    return tuple(repository.ask(*words, "*Passes.cpp", "*Pipelines.cpp", "*Pipeline.cpp").decode().split())


def _summary(found: Attribution) -> str:
    good, bad = found.good.name, found.bad.name
    how = "diverge after" if found.status is ComparisonResult.DIVERGES else "are the same up to"
    files = f" ({', '.join(found.files)})" if found.files else ""
    return f"{good} and {bad} {how} {' and '.join(found.passes)}{files}"
