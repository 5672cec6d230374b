"""What the passes of a good and a bad compiler show about the commit between them,
before any other probe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.attribute.divergence import AttributionRequest, attribute
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.prior import PassEvidence
from triage.execution.engine import Engine
from triage.git_history.git_program import GitRefused
from triage.git_history.repository import Repository
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted, TriageError
from triage.toolchains.registry import ToolchainRef

_TIME_LIMIT = 60.0  # seconds for each of the two compiles that print their IR


def pass_evidence(
    engine: Engine,
    case: Case,
    good: ToolchainRef,
    bad: ToolchainRef,
    repository: Repository,
) -> PassEvidence | None:
    """Compare the passes of two compilers. Returns None if they show nothing or the IR
    cannot be printed.

    Two compiles, each ended after a minute.
    """
    if engine.compilers[case.compiler].passes is None:
        return None
    try:
        request = AttributionRequest(
            case, good, bad, repository, excerpts=False, patience=_TIME_LIMIT
        )
        found = attribute(engine, request)
    except Interrupted:
        raise
    except TriageError as error:
        engine.progress.note(
            f"the passes of {good.revision.name} and {bad.revision.name} cannot be "
            f"compared: {error}"
        )
        return None
    one_sided = sorted({name.name for name in found.one_sided})
    scheduling = _commits_that_schedule(
        one_sided, repository, found.good.commit, found.bad.commit
    )
    parts = []
    if found.passes:
        parts = [_summary(found)]
    else:
        parts = []
    if scheduling:
        parts += [f"{len(scheduling)} of the commits change which passes run"]
    if parts:
        return PassEvidence(found.passes, found.files, "; ".join(parts), scheduling)
    return None


def _commits_that_schedule(
    passes: Sequence[str], repository: Repository, good: str | None, bad: str | None
) -> tuple[str, ...]:
    """Return the shas of the commits between two others whose diff adds or removes a
    line with `create<Pass>` in `*Passes.cpp` or `*Pipeline(s).cpp`.

    Empty without passes, without one of the commits, or if the clone lacks it. passes:
    class names.
    """
    names = "|".join(re.escape(name.removesuffix("Pass")) for name in passes)
    if not (names and good and bad):
        return ()
    try:
        first, last = repository.resolve(good), repository.resolve(bad)
        if not repository.ask("rev-list", "--max-count=1", f"{first}..{last}"):
            first, last = last, first  # a fix: the good compiler is the newer one
        words = (
            "log",
            "--first-parent",
            "-m",
            "--format=%H",
            "-G",
            rf"\bcreate({names})(Pass)?\b",
            f"{first}..{last}",
            "--",
        )
        return tuple(
            repository.ask(*words, "*Passes.cpp", "*Pipelines.cpp", "*Pipeline.cpp")
            .decode()
            .split()
        )
    except (BadInput, GitRefused):
        return ()


def _summary(found: Attribution) -> str:
    if found.status is ComparisonResult.DIVERGES:
        how = "diverge after"
    else:
        how = "are the same up to"
    if found.files:
        files = f" ({', '.join(found.files)})"
    else:
        files = ""
    return (
        f"{found.good.name} and {found.bad.name} {how} "
        f"{' and '.join(found.passes)}{files}"
    )
