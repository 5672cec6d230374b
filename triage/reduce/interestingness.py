"""The interestingness test: compiles candidates in parallel and decides whether they
show the failure.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

from triage.classify.findings import dispatch_kind
from triage.execution.engine import Engine
from triage.model.case import Case
from triage.model.errors import Interrupted
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.progress import ProgressTask
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.program import ReducedCase, settings_of


@dataclass
class Oracle:
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
    problem: str = ""
    """Why this machine could not compile a candidate, such as a full disk; of several
    reasons the last.
    """
    _operation: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for probe in (*self.baseline.probes, *self.baseline.again):
            self._count(probe)

    def prepare(self, candidate: ReducedCase) -> ReducedCase | None:
        """Take over what the original brings, and return the candidate to start from;
        None if it cannot be reduced.
        """
        return candidate

    def with_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with the values that it is run with; None if there are
        no values for it.
        """
        return candidate

    def complete(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with all that its case needs to be probed by itself;
        None if that cannot be computed.
        """
        return candidate

    def fails(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        """Return whether the bad toolchain fails on the candidate as it did on the
        original.
        """
        for attempt in range(self.baseline.repeats):
            outcome = self._compile(candidate, self.bad, attempt, cancelled).outcome
            if not isinstance(outcome, Failed):
                continue
            # Only the root cause counts: later runs identify it by that.
            if not self.baseline.match(outcome.failure):
                continue
            if self._operation in (
                "",
                self._failing_operation(candidate, outcome.failure),
            ):
                return True
        return False

    def is_confirmed(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        """Check a candidate that fails on the bad toolchain: return whether the good
        one compiles it, or fails as the baseline allows. True without a good toolchain.
        """
        if self.good is None:
            return True
        outcome = self._compile(candidate, self.good, 0, cancelled).outcome
        return self.baseline.lacks_failure(outcome)

    @property
    def is_sure(self) -> bool:
        """Whether `fails` alone decides, so that `is_confirmed` need not be asked."""
        return self.good is None

    def confirm_in_new_processes(self, candidate: ReducedCase) -> bool:  # noqa: ARG002 - it was asked
        """Check the smallest program without the fast but less certain test, such as a
        persistent worker, and return whether it fails there, too. If it does not, that
        test is not used again.
        """
        return True

    def begin_with(self, candidate: ReducedCase) -> None:
        """Keep the kind of the operation that fails in the first candidate, if others
        may have the same signature.
        """
        outcome = self._compile(candidate, self.bad, 0, threading.Event()).outcome
        if isinstance(outcome, Failed):
            self._operation = self._failing_operation(candidate, outcome.failure)

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
        attempt: int,
        cancelled: threading.Event,
    ) -> Probe:
        with self._case_on_disk(candidate) as case:
            here, naming = not self.baseline.is_portable, self.baseline.naming
            probe = self.engine.probe_on(
                case,
                toolchain,
                once=naming,
                attempt=attempt,
                cancelled=cancelled,
                here=here,
            )
        self._count(probe)
        if (
            isinstance(probe.outcome, NoAnswer)
            and probe.outcome.cause is Cause.ENVIRONMENT
        ):
            self.problem = probe.outcome.reason
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


@dataclass(slots=True)
class _Asked:
    """A candidate that a thread is asked about."""

    candidate: ReducedCase
    cancelled: threading.Event = field(default_factory=threading.Event)
    answer: Future[bool] | None = None


class InterestingnessTest:
    """Decides whether candidates show the failure.

    Equal programs with equal settings are asked about once, until `forget`; invalid
    ones are not compiled. Candidates are compiled on the bad toolchain, and while
    `strict` is set on the good one, too. Otherwise `run_pass` compiles the result of
    each pass there.
    """

    def __init__(
        self,
        oracle: Oracle,
        save: Callable[[ReducedCase], None],
        jobs: int,
        task: ProgressTask,
    ) -> None:
        """`save` stores a better candidate that nothing else must confirm."""
        self.oracle = oracle
        self.best: ReducedCase | None = None
        self.strict = False
        self.invalid = 0
        self._save, self._task, self._activity = save, task, "the original"
        self._answers: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._jobs = jobs
        self._pool = ThreadPoolExecutor(
            max_workers=jobs, thread_name_prefix="candidate"
        )

    def first(self, candidates: Iterable[ReducedCase]) -> ReducedCase | None:
        """Make the first interesting candidate the best one and return it; None if none
        is. First means in the order of `candidates`, whichever thread answers first.
        """
        asked: deque[_Asked] = deque()
        source = iter(candidates)
        try:
            while True:
                for candidate in islice(source, self._jobs - len(asked)):
                    # in the queue before it runs, so that Ctrl-C finds it there
                    asked.append(_Asked(candidate))
                    asked[-1].answer = self._pool.submit(self._ask, asked[-1])
                if not asked:
                    return None
                # stays in the queue until answered, so that it is cancelled with the
                # others
                oldest = asked[0]
                assert oldest.answer
                interesting = oldest.answer.result()
                asked.popleft()
                if interesting:
                    self.accept_as_best(oldest.candidate)
                    return oldest.candidate
        finally:
            for one in asked:
                one.cancelled.set()
            for one in asked:
                if one.answer:
                    with suppress(Interrupted):
                        one.answer.result()

    def is_valid_change(self, candidate: ReducedCase) -> bool:
        """Return whether the candidate is valid and its program or settings differ from
        the best one's. This compiles nothing.
        """
        content = candidate.program.content_if_valid()
        if content is None:
            return False
        if self.best is None:
            return True
        if settings_of(candidate.case) != settings_of(self.best.case):
            return True
        return content != self.best.program.content_if_valid()

    def accept_as_best(
        self, candidate: ReducedCase, *, confirmed: bool = False
    ) -> None:
        """Make a candidate the best one. Save it only if nothing else must be asked.

        confirmed: the oracle's `is_confirmed` has returned True.
        """
        self.best = candidate
        if confirmed or self.strict or self.oracle.is_sure:
            self._save(self.oracle.with_values(candidate) or candidate)
        self.report(self._activity)

    def report(self, activity: str) -> None:
        """Show the progress. activity: the pass that runs."""
        self._activity = activity
        size = ""
        if self.best:
            size = f"{self.best.program.size} {self.best.program.unit}s, "
        calls, cached = self.oracle.calls, self.oracle.cached
        self._task.describe(
            f"reduce  {activity}  {size}{calls} compiles, {cached} cache hits"
        )

    def forget(self) -> None:
        """Ask about each candidate again."""
        with self._lock:
            self._answers.clear()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, asked: _Asked) -> bool:
        """Return whether a candidate is interesting; count it if it is invalid."""
        candidate, cancelled = asked.candidate, asked.cancelled
        content, with_values = candidate.program.content_if_valid(), None
        if content is not None:
            with_values = self.oracle.with_values(candidate)
        if content is None or with_values is None:
            with self._lock:
                self.invalid += 1
            return False
        settings = repr((settings_of(with_values.case), self.strict))
        key = sha256(content + settings.encode()).hexdigest()
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:  # candidates of equal links of a chain are often the same program
            if key not in self._answers:
                answer = self.oracle.fails(with_values, cancelled)
                if answer and self.strict:
                    answer = self.oracle.is_confirmed(with_values, cancelled)
                self._answers[key] = answer
                self._task.advance()
            return self._answers[key]
