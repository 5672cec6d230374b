"""The result of a reduction, and its best program on disk, so that an interrupted reduction can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from pydantic import TypeAdapter

from triage.compilers.base import KernelSpec
from triage.compilers.registry import family_of
from triage.model.case import Case, Flag, Target
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.reduce.program import Candidate
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A size before and after the reduction."""

    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class VersionResult:
    """The result of the program on one version."""

    version: str
    commit: str | None
    status: str
    """passed, failed or untestable."""
    signature: str | None
    headline: str | None
    reason: str | None


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
    """A smaller program that fails as the original does, or the reason why there is none."""

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {"small": None, "probes": None, "cause": None}
    JSON_PROPERTIES: ClassVar = ("status", "recipe", "case", "compiler", "signature", "evidence", "tried")

    small: Case
    """The case with the smaller program; the original case when nothing was reduced."""
    reason: str | None = None
    """Why nothing was reduced."""
    cause: Cause | None = None
    """Set when the machine or the recipe is the reason."""
    probes: tuple[Probe, ...] = ()
    """The smaller program on every version tried; the original when nothing was reduced."""
    failure: Failure | None = None
    bad: Revision | None = None
    good: Revision | None = None
    """The revision that compiles the smaller program, if one was named."""
    program: str | None = None
    """What the compiler reads."""
    operations: SizeChange = SizeChange()
    unit: str = "operation"
    """What `operations` counts: operation, node, statement or line."""
    lines: SizeChange = SizeChange()
    bytes: SizeChange = SizeChange()
    oracle_calls: int = 0
    """Compiles that were made, on both toolchains."""
    cached: int = 0
    """Compiles that were answered from the cache."""
    invalid: int = 0
    """Programs that did not verify and were not compiled."""
    seconds: float = 0.0
    compile_seconds: float = 0.0
    """Summed over the compiles."""
    others: tuple[Failure, ...] = ()
    """Other failures that were found."""
    notes: tuple[str, ...] = ()
    changes: tuple[SettingChange, ...] = ()
    reproducer: str | None = None
    """The folder that was written."""

    @property
    def status(self) -> str:
        return "reduced" if self.reason is None else "not-reproducible"

    @property
    def recipe(self) -> str:
        return self.small.recipe

    @property
    def case(self) -> str:
        return self.small.name

    @property
    def compiler(self) -> str:
        return self.small.compiler

    @property
    def signature(self) -> str | None:
        return self.failure.signature if self.failure else None

    @property
    def evidence(self) -> tuple[VersionResult, ...]:
        """The smaller program on each version."""
        return tuple(map(version_result, self.probes)) if self.reason is None else ()

    @property
    def tried(self) -> tuple[VersionResult, ...]:
        """The original on each version, when nothing was reduced."""
        return tuple(map(version_result, self.probes)) if self.reason else ()

    @property
    def size(self) -> str:
        """The size of the smaller program: `3 operations`."""
        return f"{self.operations.after} {self.unit}{'' if self.operations.after == 1 else 's'}"


def version_result(probe: Probe) -> VersionResult:
    """Return what is shown of a probe."""
    name, commit = probe.revision.name, probe.revision.commit
    match probe.outcome:
        case Compiled():
            return VersionResult(name, commit, "passed", None, None, None)
        case Failed(failure=failure):
            return VersionResult(name, commit, "failed", failure.signature, failure.headline, None)
        case Untestable(reason=reason):
            return VersionResult(name, commit, "untestable", None, None, reason)


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
