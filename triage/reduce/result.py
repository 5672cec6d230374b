"""The results of reductions, and of reproducers that are compiled again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from triage.model.case import Case, Target
from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import (
    Exit,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Probe,
    ProbeResult,
    exit_without_answer,
)
from triage.model.revision import Revision


@dataclass(frozen=True)
class SizeChange:
    """A size before and after the reduction."""

    before: int | None = None
    after: int | None = None


@dataclass(frozen=True)
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
    sizes: SizeChange = field(default=SizeChange(), metadata=key("operations"))
    unit: str = "operation"
    """What `sizes` counts: operation, node, statement or line."""
    lines: SizeChange = SizeChange()
    bytes: SizeChange = SizeChange()
    oracle_calls: int = 0
    """Compiles that were made, on both toolchains."""
    seconds: float = 0.0
    reproducer: str | None = None
    """The folder that was written."""

    @property
    def exit(self) -> Exit:
        if self.unanswered is None:
            return Exit.OK
        return exit_without_answer(self.cause)

    @in_json
    def status(self) -> str:
        if self.unanswered is None:
            return "reduced"
        return "not-reproducible"

    @in_json
    def case(self) -> str:
        return self.small.name

    @in_json
    def signature(self) -> str | None:
        if self.failure:
            return self.failure.signature
        return None

    @in_json
    def evidence(self) -> tuple[ProbeResult, ...]:
        """The smaller program on every version tried; the original when nothing was
        reduced. What the recipe expects is about the original.
        """
        from triage.execution.judge import result_of  # slow to import

        results = map(result_of, self.probes)
        return tuple(replace(result, status=result.plain_status) for result in results)

    @property
    def replays(self) -> dict[str, ReplayState]:
        """The state of the smaller program on each version."""
        return replay_states(self.evidence, self.signature or "")

    @property
    def size(self) -> str:
        """The size of the smaller program: `3 operations`."""
        plural = "" if self.sizes.after == 1 else "s"
        return f"{self.sizes.after} {self.unit}{plural}"


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
    sizes: SizeChange = field(default=SizeChange(), metadata=key("operations"))
    """Of the original and of this program, if it was reduced."""
    unit: str = "operation"
    """What `sizes` counts."""


class ReplayState(StrEnum):
    """The result of a reproducer on a version."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it passes
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True)
class Replay:
    """A recorded reproducer and its results."""

    reproducer: str
    """The folder."""
    small: Case = field(metadata=UNPRINTED)
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


@dataclass(frozen=True)
class Replays:
    """Reproducers that were compiled again."""

    reproducers: Sequence[Replay]

    @property
    def exit(self) -> Exit:
        """FAILURE if a recorded version no longer fails as recorded, else why a
        reproducer could not be tested.
        """
        if any(replay.holds is False for replay in self.reproducers):
            return Exit.FAILURE
        untested = [replay for replay in self.reproducers if not replay.tested]
        if not untested:
            return Exit.OK
        causes = [version.cause for replay in untested for version in replay.versions]
        return exit_without_answer(*causes)


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
