"""Results of a reduction, and its best draft on disk, so that an interrupted reduction can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter

from triage.compilers.base import KernelSpec
from triage.compilers.registry import family_of
from triage.model.case import Case, Flag, Target
from triage.model.outcome import Cause, Failure, Probe
from triage.model.revision import Revision
from triage.reduce.draft import Draft
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class ProgramSize:
    """operations: pieces of the program, called `unit`; lines and bytes: of its text."""

    operations: int
    lines: int
    bytes: int
    unit: str = "operation"

    def __str__(self) -> str:
        return f"{self.operations} {self.unit}{'' if self.operations == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Effort:
    """The cost of a reduction. calls: compiles; cached: answered from the cache; invalid: drafts that did not verify and
    were not compiled; seconds: wall time; compile_seconds: summed over the compiles.
    """

    calls: int
    cached: int
    invalid: int
    seconds: float
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A flag, a part of the target or an option of a kernel that the reduced program does without. None: it is not set."""

    setting: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.after is None:
            return f"{self.setting} {self.before} is not needed"
        return f"{self.setting} is {self.after}" + (f" instead of {self.before}" if self.before is not None else "")


@dataclass(frozen=True, slots=True)
class Reduced:
    """A smaller program that fails as the original does.

    text: the program. evidence: a probe for every version tried. others: other failures found, the most frequent first;
    saved: their programs, each with the file that holds it until a reproducer replaces it. changes: of flags, target and
    options.
    """

    case: Case
    failure: Failure
    bad: Revision
    good: Revision | None
    text: str
    before: ProgramSize
    after: ProgramSize
    effort: Effort
    evidence: tuple[Probe, ...] = ()
    others: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    saved: tuple[tuple[Reduced, Path], ...] = ()
    changes: tuple[SettingChange, ...] = ()


@dataclass(frozen=True, slots=True)
class NotReproducible:
    """Nothing was reduced. cause: set when the machine or the recipe is the reason; tried: the probes made."""

    case: Case
    reason: str
    tried: Sequence[Probe] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """What a draft changes of its case. kernel: None for programs that are no kernels; function, inputs: how it is run."""

    flags: tuple[Flag, ...]
    target: Target
    phase: str | None
    kernel: KernelSpec | None
    function: str | None = None
    inputs: tuple[str, ...] = ()


@cache
def _settings() -> TypeAdapter[DraftSettings]:
    return TypeAdapter(DraftSettings)


class ReductionFolder:
    """A folder with `best.mlir` (or the input's own suffix) and `settings.json`, each replaced in one step."""

    def __init__(self, home: Path, key: str) -> None:
        """key: identifies the reduction, with its program and its compilers; another key is another folder."""
        self.path = home / "reductions" / sha256(key.encode()).hexdigest()[:16]
        with disk_errors("keep the reduction"):
            self.path.mkdir(parents=True, exist_ok=True)

    def save(self, draft: Draft) -> None:
        """Write the draft, the program first: settings of an older draft still fail on it, or are rejected."""
        with disk_errors("keep the reduction"):
            write_whole(self.path / f"best.{draft.document.suffix}", draft.document.content)
            case = draft.case
            kernel = family_of(case).kernel(case)
            settings = DraftSettings(case.flags, case.target, case.phase, kernel)
            if case.run:
                settings = replace(settings, function=case.run.function, inputs=case.run.inputs)
            write_whole(self.path / "settings.json", _settings().dump_json(settings))

    def best(self, case: Case) -> tuple[Path, Case] | None:
        """Return the saved program and the case with its settings; None when nothing is saved, or the settings are damaged."""
        program = next(iter(self.path.glob("best.*")), None)
        with suppress(OSError, ValueError):
            saved = _settings().validate_json((self.path / "settings.json").read_bytes(), strict=True)
            if program:
                spec = saved.kernel or case.spec
                run = replace(case.run, function=saved.function, inputs=saved.inputs) if case.run else None
                return program, replace(case, flags=saved.flags, target=saved.target, phase=saved.phase, spec=spec, run=run)
        return None
