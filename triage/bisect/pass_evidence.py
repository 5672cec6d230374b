"""Which source files a good and a bad compiler point to, before any other probe."""

from __future__ import annotations

from triage.attribute.divergence import AttributionRequest, attribute
from triage.execution.engine import Engine
from triage.git_history.repository import Repository
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.toolchains.registry import ToolchainRef

_TIME_LIMIT = 60.0  # seconds for each of the two compiles that print their IR


def files_that_diverge(
    engine: Engine,
    case: Case,
    good: ToolchainRef,
    bad: ToolchainRef,
    repository: Repository,
) -> frozenset[str]:
    """Return the files of the passes after which two compilers differ; none if that
    cannot be found out with two compiles of a minute.
    """
    if engine.compilers[case.compiler].passes is None:
        return frozenset()
    request = AttributionRequest(
        case, good, bad, repository, excerpts=False, patience=_TIME_LIMIT
    )
    try:
        return frozenset(attribute(engine, request).files)
    except Interrupted:
        raise
    except TriageError as error:
        names = f"{good.revision.name} and {bad.revision.name}"
        engine.progress.note(f"the passes of {names} cannot be compared: {error}")
        return frozenset()
