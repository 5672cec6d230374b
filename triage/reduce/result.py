"""The result of a reduction, and its best program on disk, so that an interrupted
reduction can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter

from triage.compilers.base import KernelSpec, kernel_of
from triage.execution.judge import result_of
from triage.model.case import Case, Flag, RunSpec, Target
from triage.model.content import file_sha256
from triage.model.foreign_file import read_bytes
from triage.model.json_form import UNPRINTED, in_json, in_json_as, key
from triage.model.outcome import (
    Cause,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Probe,
)
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.reduce.program import ReducedCase
from triage.toolchains.home import Home, KeptKind, disk_errors, write_whole

_LARGEST_SETTINGS = 16 << 20  # bytes


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A size before and after the reduction."""

    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class WrongValue:
    """The first value of the original program that the bad toolchain computes wrong."""

    name: str | None
    """In the source, such as `%12`."""
    operation: str
    actual: str
    """The first wrong element."""
    expected: str
    mismatches: int
    elements: int

    @property
    def sentence(self) -> str:
        """`%12 = linalg.generic` is the first value that differs: ..."""
        name = f"{self.name} = {self.operation}" if self.name else self.operation
        return (
            f"`{name}` is the first value that differs: {self.actual} instead of "
            f"{self.expected} in {self.mismatches:,} of {self.elements:,} elements"
        )


@dataclass(frozen=True, slots=True)
class Reduction(MayLackAnswer):
    """A smaller program that fails as the original does, or the reason why there is
    none.
    """

    small: Case = field(metadata=UNPRINTED)
    """The case with the smaller program; the original case when nothing was reduced."""
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why nothing was reduced."""
    probes: tuple[Probe, ...] = field(default=(), metadata=UNPRINTED)
    """The smaller program on every version tried; the original when nothing was
    reduced.
    """
    failure: Failure | None = None
    bad: Revision | None = None
    good: Revision | None = None
    """The revision that compiles the smaller program, if one was named."""
    program: str | None = None
    """The text of the smaller program, in the form that the compiler reads; None if it
    is binary.
    """
    readable_probe: Probe | None = field(default=None, metadata=UNPRINTED)
    """Of the same program on `bad`, in the most readable form that fails there in the
    same way. Other revisions may not read it.
    """
    sizes: SizeChange = field(default=SizeChange(), metadata=key("operations"))
    unit: str = "operation"
    """What `sizes` counts: operation, node, statement or line."""
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
    first_wrong: WrongValue | None = None
    """Of a wrong result, where it was found."""
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Flags, parts of the target and options of a kernel that the smaller program does
    without, as sentences.
    """
    reproducer: str | None = None
    """The folder that was written."""

    @in_json
    def status(self) -> str:
        if self.unanswered is None:
            return "reduced"
        return "not-reproducible"

    @in_json
    def recipe(self) -> str:
        return self.small.recipe

    @in_json_as("case")
    def case_name(self) -> str:
        return self.small.name

    @in_json_as("compiler")
    def compiler_name(self) -> str:
        return self.small.compiler

    @in_json
    def signature(self) -> str | None:
        if self.failure:
            return self.failure.signature
        return None

    @in_json_as("evidence")
    def versions(self) -> tuple[ProbeResult, ...]:
        """The smaller program on every version tried; the original when nothing was
        reduced. What the recipe expects is about the original.
        """
        results = map(result_of, self.probes)
        return tuple(replace(one, status=one.plain_status) for one in results)

    @property
    def size(self) -> str:
        """The size of the smaller program: `3 operations`."""
        plural = "" if self.sizes.after == 1 else "s"
        return f"{self.sizes.after} {self.unit}{plural}"


def not_reduced(
    case: Case, probes: tuple[Probe, ...], reason: str, cause: Cause = Cause.NOT_FOUND
) -> Reduction:
    """Return the result for a case that cannot be reduced, with the reason."""
    return Reduction(case, NoAnswer(cause, reason), probes)


def setting_changes(original: Case, reduced: Case) -> Iterator[str]:
    """Yield what differs between two cases, apart from their programs: `chip is gfx908
    instead of gfx942`.
    """
    left = [flag.text for flag in reduced.flags]
    for flag in original.flags:
        if flag.text in left:
            left.remove(flag.text)
        else:
            yield f"flag {flag.text} is not needed"
    pairs: list[tuple[str, object, object]] = [
        ("chip", original.target.chip, reduced.target.chip),
        ("devices", original.target.devices, reduced.target.devices),
    ]
    if isinstance(original.spec, KernelSpec) and isinstance(reduced.spec, KernelSpec):
        new = reduced.spec.options
        pairs += [
            (f"option {name}", value, new.get(name))
            for name, value in original.spec.options.items()
        ]
    for name, before, after in pairs:
        if before == after:
            continue
        if after is None:
            yield f"{name} {before} is not needed"
        else:
            yield f"{name} is {after} instead of {before}"


@dataclass(frozen=True)
class Settings:
    """What a reduction changes of the case besides its program."""

    flags: tuple[Flag, ...]
    target: Target
    phase: str | None
    kernel: KernelSpec | None
    function: str | None
    """The one that is run."""
    inputs: tuple[str, ...]
    """Of the run."""

    @classmethod
    def of(cls, case: Case) -> Settings:
        run = case.run or RunSpec()
        kernel = kernel_of(case)
        return cls(
            case.flags, case.target, case.phase, kernel, run.function, run.inputs
        )

    def applied_to(self, case: Case) -> Case:
        """Return a case with these settings."""
        run = case.run
        if run:
            run = replace(run, function=self.function, inputs=self.inputs)
        return replace(
            case,
            flags=self.flags,
            target=self.target,
            phase=self.phase,
            spec=self.kernel or case.spec,
            run=run,
        )


@dataclass(frozen=True)
class SavedReduction:
    """What `settings.json` holds."""

    reduction: str
    """The key of the reduction."""
    program: str
    """The SHA-256 of the best program."""
    settings: Settings


_SAVED = TypeAdapter(SavedReduction)


class ReductionFolder:
    """A folder with the best program and `settings.json`, which names it."""

    def __init__(self, home: Home, key: str) -> None:
        """Make the folder of the reduction that `key` identifies, with its program and
        its compilers.
        """
        self.key = sha256(key.encode()).hexdigest()
        self.path = home.kept(KeptKind.REDUCTIONS) / self.key[:16]
        with disk_errors("keep the reduction"):
            self.path.mkdir(parents=True, exist_ok=True)

    def save(self, candidate: ReducedCase) -> None:
        """Write the candidate's program, then its settings, and remove the programs
        before it.
        """
        digest = sha256(candidate.program.content).hexdigest()
        saved = SavedReduction(self.key, digest, Settings.of(candidate.case))
        path = self.path / f"best-{digest[:12]}.{candidate.program.suffix}"
        with disk_errors("keep the reduction"):
            write_whole(path, candidate.program.content)
            write_whole(
                self.path / "settings.json", _SAVED.dump_json(saved, by_alias=True)
            )
            for other in self.path.glob("best-*"):
                if other != path:
                    other.unlink(missing_ok=True)

    def saved_state(self, case: Case) -> tuple[Path, Case] | None:
        """Return the file of the saved program, and the case with the saved settings;
        None unless both are there, intact and of this reduction.
        """
        try:
            text = read_bytes(self.path / "settings.json", _LARGEST_SETTINGS)
            saved = _SAVED.validate_json(text, strict=True)
        except (OSError, ValueError):
            return None
        if saved.reduction != self.key:
            return None
        for program in self.path.glob(f"best-{saved.program[:12]}.*"):
            if file_sha256(program) == saved.program:
                return program, saved.settings.applied_to(case)
        return None


@dataclass(frozen=True)
class IssueDraft:
    """What the draft of an issue shows of a program: the reduced one, else the
    original. Reports render it, and read no file.
    """

    files: dict[str, str | None]
    """The program, and the files that the command needs, by name; null for one that is
    too long to paste, or binary.
    """
    command: str
    error: str = ""
    """The line of the output that names the failure."""
    output: str = ""
    headline: str = ""
    """Of this program's failure: a reduced one may have other numbers than the
    original.
    """
    first_wrong: str = ""
    """A sentence on the first value that differs, of a wrong result."""
    unneeded: list[str] = field(default_factory=list)
    """Flags of the case that the failure does not need."""
    compiler_command: str = field(default="", metadata=key("program"))
    """The executable of the compiler, such as `iree-compile`."""
    how_to_install: str = field(default="", metadata=key("version"))
    """The compiler's package and version for pip; without a package its name and
    version.
    """
    input_noun: str = field(default="program", metadata=key("noun"))
    """What the compiler reads: program, kernel."""
    ending: str = ""
    """How the compile or the run ended."""
    explanation: str = ""
    """What the failure class means."""
    target: Target | None = None
    summary: str = ""
    """Of the case."""
    sizes: SizeChange | None = field(default=None, metadata=key("operations"))
    """Sizes of the original and of this program; None if nothing was reduced."""
    unit: str = "operation"
    """What `sizes` counts."""
    changes: list[str] = field(default_factory=list)
    """Settings of the case that this program does without, as sentences."""
    notes: list[str] = field(default_factory=list)
