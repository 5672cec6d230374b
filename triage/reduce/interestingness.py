"""The interestingness test: compiles a candidate and decides whether it shows the
failure.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from triage.classify.finding import dispatch_kind
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.program import ReducedCase


@dataclass
class CompileTest:
    """Compiles candidates on both toolchains. Safe for several threads; deletes each
    candidate's file after its compile.
    """

    engine: Engine
    folder: Path
    """An existing folder for the candidates' files."""
    bad: Toolchain
    good: Toolchain | None
    baseline: Baseline
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    cached: int = 0
    seconds: float = 0.0
    """Summed over the compiles."""
    tests_good: bool = False
    """Whether each candidate is compiled on the good toolchain, not only the result of
    each pass.
    """
    problem: str = ""
    """Why this machine could not compile a candidate, such as a full disk; of several
    reasons the last.
    """
    _operation: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for probe in self.baseline.probes:
            self._count(probe)

    def prepare(self, original: ReducedCase) -> ReducedCase | None:
        """Take over what the original brings, and return the candidate to start from;
        None if it cannot be reduced.
        """
        return original

    def begin_with(self, candidate: ReducedCase) -> None:
        """Keep the kind of the operation that fails in the first candidate, if others
        may have the same signature.
        """
        outcome = self._compile(candidate, self.bad, threading.Event()).outcome
        if isinstance(outcome, Failed):
            self._operation = self._failing_operation(candidate, outcome.failure)

    def ready(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with the values that it is run with; None if there are
        no values for it.
        """
        return candidate

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Return whether the bad toolchain fails on the candidate as it did on the
        original, and the good one does not if it is asked.
        """
        for attempt in range(self.baseline.repeats):
            outcome = self._compile(candidate, self.bad, stop, attempt).outcome
            # Only the root cause counts: later runs identify it by that.
            if not isinstance(outcome, Failed):
                continue
            if not self.baseline.match(outcome.failure):
                continue
            operation = self._failing_operation(candidate, outcome.failure)
            if self._operation in ("", operation):
                return not self.tests_good or self._good_lacks_failure(candidate, stop)
        return False

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Return whether the good toolchain lacks the failure. If not, it is asked
        about each candidate from now on.
        """
        never = threading.Event()
        if self.tests_good or self._good_lacks_failure(candidate, never):
            return True
        self.tests_good = True
        return False

    def _good_lacks_failure(
        self, candidate: ReducedCase, stop: threading.Event
    ) -> bool:
        if self.good is None:
            return True
        probe = self._compile(candidate, self.good, stop)
        return self.baseline.lacks_failure(probe.outcome)

    def complete(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with all that its case needs to be probed by itself;
        None if that cannot be computed.
        """
        return candidate

    def _failing_operation(self, candidate: ReducedCase, failure: Failure) -> str:
        """Return the kind of operation or dispatch that fails, or nothing if it is not
        known or part of the signature.
        """
        name, source_op = failure.failure_class, failure.details.get("source_op")
        if failure.signature not in (name, f"{name}:{source_op}"):
            return ""
        kind = dispatch_kind(str(failure.details.get("function")))
        line = line_of(failure)
        if line and not kind:
            return candidate.program.operation_at(line) or ""
        return kind

    def _compile(
        self,
        candidate: ReducedCase,
        toolchain: Toolchain,
        stop: threading.Event,
        attempt: int = 0,
    ) -> Probe:
        with self._case_on_disk(candidate) as case:
            job = ProbeJob(
                case,
                self.engine.registry.ref_of(toolchain),
                once=self.baseline.naming,
                attempt=attempt,
                stop=stop,
                here=not self.baseline.is_portable,
            )
            probe = self.engine.probe(job)
        self._count(probe)
        match probe.outcome:
            case NoAnswer(cause=Cause.ENVIRONMENT, reason=reason):
                self.problem = reason
        return probe

    @contextmanager
    def _case_on_disk(self, candidate: ReducedCase) -> Iterator[Case]:
        """Yield the case of a candidate, whose file exists meanwhile."""
        content, case = candidate.program.content, candidate.case
        # A folder for each candidate: some compilers derive names from the file name,
        # which must be an identifier.
        digest = sha256(content).hexdigest()[:24]
        folder = self.folder / f"{digest}-{threading.get_ident()}"
        path = folder / f"input.{candidate.program.suffix}"
        folder.mkdir(exist_ok=True)
        path.write_bytes(content)
        try:  # another name, so that its results are not taken for the recipe's
            yield replace(
                case,
                name=f"{case.name} (reducing)",
                input=case.input.rewritten(path, candidate.program.kind),
                expect=(),
            )
        finally:
            # with the files that a compiler wrote there
            shutil.rmtree(folder, ignore_errors=True)

    def _count(self, probe: Probe) -> None:
        with self._lock:
            if probe.cached:
                self.cached += 1
            elif not isinstance(probe.outcome, NoAnswer) or probe.measured.seconds:
                self.calls += 1
                self.seconds += probe.measured.seconds


def line_of(failure: Failure) -> int | None:
    """Return the line of a failure's location, `file:line:column`; None without one."""
    parts = (failure.location or "").rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdigit():
        return int(parts[1])
    return None
