"""What the passes of a good and a bad compiler tell of the commit between them, before anything else is probed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from triage.attribute.attribute import Depth, attribute
from triage.attribute.result import Attribution, Finding
from triage.bisect.prior import Clues
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.probe.workbench import Workbench
from triage.timeline import Repository
from triage.toolchains.shed import Place

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


def pass_evidence(
    bench: Workbench, case: Case, good: Place, bad: Place, repository: Repository | None = None
) -> PassEvidence | None:
    """What two compilers' passes tell; None where they tell nothing, or the IR cannot be printed. Two compiles, each ended
    after a minute.
    """
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
    how = "part after" if found.finding is Finding.PARTED else "are the same up to"
    files = f" ({', '.join(found.files)})" if found.files else ""
    return f"{good} and {bad} {how} {' and '.join(found.passes)}{files}"
