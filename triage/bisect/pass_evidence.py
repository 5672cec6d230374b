"""What the passes of a good and a bad compiler tell of the commit between them, before anything else is probed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.prior_clues import Clues
from triage.execution.runner import ProbeRunner
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.model.outcome import Untestable
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

_PATIENCE = 60.0  # seconds for each of the two compiles that print their IR


@dataclass(frozen=True, slots=True)
class PassEvidence:
    """Passes by their class and source files, relative to the repository, that a difference points at, and the phase it
    comes up in, None where that is not known; `told`: in words.
    """

    passes: tuple[str, ...]
    files: tuple[str, ...]
    phase: str | None
    told: str

    def added_to(self, clues: Clues) -> Clues:
        """The same clues, these names among them. Where the difference comes up counts for more than where it fails."""
        return replace(
            clues,
            passes=(*clues.passes, *self.passes),
            files=(*clues.files, *self.files),
            phase=self.phase or clues.phase,
            text=" ".join([clues.text, *self.passes]),
        )


_EVIDENCE: TypeAdapter[PassEvidence | None] = TypeAdapter(PassEvidence | None)


def pass_evidence(
    bench: ProbeRunner, case: Case, good: ToolchainRef, bad: ToolchainRef, repository: Repository | None = None
) -> PassEvidence | None:
    """What two compilers' passes tell; None where they tell nothing, or the IR cannot be printed. Two compiles, each ended
    after a minute; what they told is kept, so that a bisect that goes on another day does not make them again.
    """
    kept = _kept_at(bench, case, good, bad)
    if kept is not None and kept.is_file():
        with suppress(OSError, ValidationError):
            return _EVIDENCE.validate_json(kept.read_bytes())
    found = _asked(bench, case, good, bad, repository)
    if kept is not None:
        with disk_errors("keep what passes told"):
            write_whole(kept, _EVIDENCE.dump_json(found))
    return found


def _kept_at(bench: ProbeRunner, case: Case, good: ToolchainRef, bad: ToolchainRef) -> Path | None:
    """Where the answer about these compilers and this program is kept; None where one of them cannot be had."""
    try:
        identities = [bench.shed.obtain(place).identity for place in (good, bad)]
    except TriageError:
        return None
    prepared = bench.prober.input_of(case)
    if isinstance(prepared, Untestable):
        return None
    about = (*identities, prepared.digest, case.target, case.flags, case.phase)
    return bench.shed.home / "attributions" / f"{sha256(repr(about).encode()).hexdigest()[:32]}.json"


def _asked(
    bench: ProbeRunner, case: Case, good: ToolchainRef, bad: ToolchainRef, repository: Repository | None
) -> PassEvidence | None:
    try:
        found = attribute(bench, case, good, bad, repository, Depth(phases=False, excerpts=False, patience=_PATIENCE))
    except Interrupted:
        raise
    except TriageError as error:
        bench.progress.note(f"the passes of {good.revision.name} and {bad.revision.name} cannot be compared: {error}")
        return None
    return PassEvidence(found.passes, found.files, found.phase, _told(found)) if found.passes else None


def _told(found: Attribution) -> str:
    good, bad = found.good.revision.name, found.bad.revision.name
    how = "diverge after" if found.status is ComparisonResult.DIVERGES else "are the same up to"
    files = f" ({', '.join(found.files)})" if found.files else ""
    return f"{good} and {bad} {how} {' and '.join(found.passes)}{files}"
