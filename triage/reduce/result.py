"""The result of a reduction, and its best program on disk, so that an interrupted reduction can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from triage.reduce.program import Candidate
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
class Reduction:
    """A smaller program that fails as the original does."""

    case: Case
    failure: Failure
    bad: Revision
    good: Revision | None
    text: str
    """The program."""
    before: ProgramSize
    after: ProgramSize
    calls: int
    """Compiles that were made, on both toolchains."""
    cached: int
    """Compiles that were answered from the cache."""
    invalid: int
    """Programs that did not verify and were not compiled."""
    seconds: float
    compile_seconds: float
    """Summed over the compiles."""
    probes: tuple[Probe, ...] = ()
    """The result of the smaller program on every version tried."""
    others: tuple[Failure, ...] = ()
    """Other failures that were found."""
    notes: tuple[str, ...] = ()
    changes: tuple[SettingChange, ...] = ()


@dataclass(frozen=True, slots=True)
class NotReproducible:
    """Nothing was reduced. cause: set when the machine or the recipe is the reason; tried: the probes made."""

    case: Case
    reason: str
    tried: Sequence[Probe] = ()
    cause: Cause | None = None


def setting_changes(original: Case, reduced: Case) -> tuple[SettingChange, ...]:
    """Return what differs between two cases, apart from their programs."""
    return tuple(_changes(original, reduced))


def _changes(original: Case, reduced: Case) -> Iterator[SettingChange]:
    left = [flag.text for flag in reduced.flags]
    for flag in original.flags:
        if flag.text in left:
            left.remove(flag.text)
        else:
            yield SettingChange("flag", flag.text, None)
    yield from (SettingChange("flag", None, text) for text in left)
    pairs: list[tuple[str, object, object]] = [
        ("chip", original.target.chip, reduced.target.chip),
        ("devices", original.target.devices, reduced.target.devices),
    ]
    if isinstance(original.spec, KernelSpec) and isinstance(reduced.spec, KernelSpec):
        old, new = original.spec.options, reduced.spec.options
        pairs += [(f"option {name}", old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))]
    for name, before, after in pairs:
        if before != after:
            yield SettingChange(name, *(None if value is None else str(value) for value in (before, after)))


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """What a reduction changes of the case. function, inputs: how it is run."""

    flags: tuple[Flag, ...]
    target: Target
    phase: str | None
    kernel: KernelSpec | None
    function: str | None = None
    inputs: tuple[str, ...] = ()


@cache
def _settings() -> TypeAdapter[SavedSettings]:
    return TypeAdapter(SavedSettings)


class ReductionFolder:
    """A folder with `best.mlir` (or the input's own suffix) and `settings.json`, each replaced in one step."""

    def __init__(self, home: Path, key: str) -> None:
        """key: identifies the reduction, with its program and its compilers; another key is another folder."""
        self.path = home / "reductions" / sha256(key.encode()).hexdigest()[:16]
        with disk_errors("keep the reduction"):
            self.path.mkdir(parents=True, exist_ok=True)

    def save(self, candidate: Candidate) -> None:
        """Write the candidate, the program first: settings of an older one still fail on it, or are rejected."""
        with disk_errors("keep the reduction"):
            write_whole(self.path / f"best.{candidate.document.suffix}", candidate.document.content)
            case = candidate.case
            kernel = family_of(case).kernel(case)
            settings = SavedSettings(case.flags, case.target, case.phase, kernel)
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
