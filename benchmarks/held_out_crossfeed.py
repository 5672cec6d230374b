"""Which phase makes two compilers' results differ, by feeding one what the other made: nothing of triage/attribute is used.

The bad compiler's output after each phase is fed to the good one, which takes it to the end. The first phase whose output gives
another result than the good one's own does is the first that makes a lasting difference; the first with which the good one
fails, or in which the bad one itself fails, is the one that decides. A phase is judged where the good compiler reads what the
other made, respelled where it has to be: see held_out_respelling.py. A result is the count of operations in it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.held_out_respelling import respelled
from benchmarks.held_out_states import Counts, Dumped, counted, dumps, of_function, of_program, parted
from triage.compilers.iree import Iree
from triage.model.case import Case
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain

PHASES = (
    "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow", "stream", "executable-sources",
    "executable-configurations", "executable-targets",
)  # fmt: skip
IN_FUNCTIONS = PHASES[-2:]
"""The phases that are compared function by function."""
PATIENCE = 60.0  # seconds for a compile
PRINTING = (
    "--mlir-print-ir-after-all", "--mlir-print-ir-after-change", "--mlir-disable-threading", "--mlir-print-local-scope",
    "--mlir-elide-elementsattrs-if-larger=16",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """lasting: the phase that makes the first difference that lasts; deciding: the one that makes the failure, None where
    neither fails. Of each the passes that may be meant, of either side, function by function. unread, undecided: phases whose
    output the good compiler does not read, and which may be meant instead.
    """

    lasting: str | None = None
    deciding: str | None = None
    lasting_passes: tuple[frozenset[str], ...] = ()
    deciding_passes: tuple[frozenset[str], ...] = ()
    unread: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


class Side:
    """One compiler and the flags of a case."""

    def __init__(self, case: Case, toolchain: Toolchain, folder: Path) -> None:
        invocation = Iree().invocation(case, toolchain)
        assert not isinstance(invocation, Untestable)
        self.options = [one for one in invocation.options if not one.startswith("--compile-to")]
        self.source = case.input.path
        self.program, self.name, self.folder = toolchain.program, toolchain.revision.name, folder
        self.phases = [phase for phase in PHASES if phase in toolchain.capabilities.phases]

    def compile(self, source: Path, since: str | None, until: str, *words: str) -> tuple[Path | None, str]:
        """From the output of one phase to that of another: the path of what it made, None where it fails, and what it said."""
        output = self.folder / f"{source.stem}-{self.name}-{until}.mlir"
        start = [f"--compile-from={since}"] if since else []
        argv = [str(self.program), *self.options, *start, f"--compile-to={until}", *words, str(source), "-o", str(output)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return None, ""
        return (output if done.returncode == 0 else None), done.stderr

    def readable(self, other: Side, phase: str) -> Path | None:
        """The other's output of a phase as it can be read here: respelled, or in generic form, whose syntax does not change, or
        as it is. None where none can be read. `iree-opt` without passes only reads.
        """
        for words in ((), ("--mlir-print-op-generic",)):
            theirs, own = (side.compile(self.source, None, phase, *words)[0] for side in (other, self))
            if theirs is None or own is None:
                return None
            text = theirs.read_text(errors="replace")
            handed = theirs.with_name(f"{phase}-of-{other.name}-for-{self.name}.mlir")
            for form in (respelled(text, own.read_text(errors="replace")), text):
                handed.write_text(form)
                if self._reads(handed):
                    return handed
        return None

    def _reads(self, source: Path) -> bool:
        argv = [str(self.program.with_name("iree-opt")), str(source), "-o", "/dev/null"]
        return subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False).returncode == 0


@dataclass
class _Search:
    """What is known while the phases are gone through. unread, undecided: phases that may be meant and could not be read."""

    lasting: str | None = None
    deciding: str | None = None
    unread: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def differs(self, phase: str, *, differs: bool) -> None:
        """Whether what was made up to a phase gives another result."""
        if self.lasting is None and differs:
            self.lasting = phase
        elif self.lasting is None:
            self.unread = []

    def cannot_tell(self, phase: str) -> None:
        self.undecided.append(phase)
        if self.lasting is None:
            self.unread.append(phase)


def judged(case: Case, toolchains: tuple[Toolchain, Toolchain], folder: Path, *, fails: bool) -> Judged:
    good, bad = (Side(case, one, folder) for one in toolchains)
    phases = [phase for phase in good.phases if phase in bad.phases]
    known = _Search()
    for phase in phases:
        if _settles(known, good, bad, phase, phases[-1]):
            break
    before = dict(zip(phases, [None, *phases], strict=False))
    lasting, deciding = known.lasting, known.deciding if fails else None
    return Judged(
        lasting,
        deciding,
        tuple(_passes((good, bad), before[lasting], lasting, fails=fails)) if lasting else (),
        tuple(_passes((good, bad), before[deciding], deciding, fails=fails)) if deciding else (),
        tuple(known.unread),
        tuple(known.undecided),
    )


def _settles(known: _Search, good: Side, bad: Side, phase: str, last: str) -> bool:
    """Whether nothing more can be learned from later phases."""
    own, theirs = (side.compile(good.source, None, phase)[0] for side in (good, bad))
    if own is None or theirs is None:  # the bad one fails in this phase; earlier ones made no failure
        known.deciding = phase
        known.differs(phase, differs=True)
        return True
    if phase == last:
        known.differs(phase, differs=_result(own) != _result(theirs))
        return True
    handed = good.readable(bad, phase)
    if handed is None:
        known.cannot_tell(phase)
        return False
    own = good.compile(good.source, None, phase)[0] or own  # in the usual form
    wanted, got = (good.compile(source, phase, last)[0] for source in (own, handed))
    if wanted is None:  # it does not go on from what it wrote itself
        known.cannot_tell(phase)
        return False
    known.differs(phase, differs=got is None or _result(wanted) != _result(got))
    if got is None:
        known.deciding = phase
    known.undecided = []
    return got is None


def _result(path: Path) -> Counts:
    return counted(path.read_text(errors="replace").splitlines())


def _passes(sides: tuple[Side, Side], since: str | None, phase: str, *, fails: bool) -> Iterator[frozenset[str]]:
    """The passes after which the two part within a phase that both begin with what the good one made."""
    good, bad = sides
    handed = bad.readable(good, since) if since else good.source
    source = good.compile(good.source, None, since)[0] if since else good.source
    if source is None or handed is None:
        return
    runs = [dumps(side.compile(one, since, phase, *PRINTING)[1]) for side, one in zip(sides, (source, handed), strict=True)]
    if phase not in IN_FUNCTIONS:
        yield frozenset(parted(of_program(runs[0]), of_program(runs[1])) or ())
        return
    last = _last(runs[1])
    for name in dict.fromkeys(name for run in runs for one in run for name in one.functions):
        if fails and last and name not in last:
            continue
        found = parted(of_function(runs[0], name), of_function(runs[1], name))
        choices = (of_function(run, name, choosing=True) for run in runs)
        found = found or parted(*choices)
        if found:
            yield frozenset(found)


def _last(run: list[Dumped]) -> set[str]:
    """The functions of the pass that failed, else those that were printed last."""
    for one in run:
        if one.failed and one.functions:
            return set(one.functions)
    return set(next((one.functions for one in reversed(run) if one.functions), ()))
