"""The interestingness test: compiles drafts in parallel and decides whether they show the failure."""

from __future__ import annotations

import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from triage.classify.findings import dispatch_kind, normalised
from triage.execution.judge import Match, same_signature, value_of
from triage.execution.runner import CandidateCompiler
from triage.execution.statistics import LOOKS, compare_times
from triage.model.case import Case, Input
from triage.model.errors import Interrupted
from triage.model.outcome import Failed, Failure, Probe, Untestable
from triage.model.progress import Task
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.draft import Document, Draft

_NEAR = 1.25  # a first ratio this far below the wanted one is refused
_CLEAR = 2.0  # a first ratio this far above it is accepted
_MOST_ATTEMPTS = LOOKS[2]


@dataclass(slots=True)
class Tally:
    """Compiles made and cached, with those of the baseline, and their seconds summed. other_failures: with their counts, by
    signature.
    """

    calls: int = 0
    cached: int = 0
    seconds: float = 0.0
    other_failures: dict[str, tuple[Failure, int]] = field(default_factory=dict)


class Oracle:
    """Compiles drafts on both toolchains. Safe for several threads; deletes each draft's file after its compile."""

    def __init__(
        self,
        trials: CandidateCompiler,
        folder: Path,
        bad: Toolchain,
        good: Toolchain | None,
        baseline: Baseline,
        *,
        operation_at: Callable[[Document, int], str | None] = lambda _document, _line: None,
        other_failures: Path | None = None,
    ) -> None:
        """folder: existing folder for the drafts' files. operation_at: the frontend's. other_failures: existing folder that
        gets the smallest program of each other failure.
        """
        self._operation_at, self._operation = operation_at, ""
        self.notes: list[str] = []
        self.bad, self.good = bad, good
        self.tally = Tally()
        self._trials, self._folder, self._baseline, self._other_failures = trials, folder, baseline, other_failures
        self._smallest: dict[str, Draft] = {}  # by the signature of another failure
        self._lock = threading.Lock()
        for probe in (*baseline.probes, *baseline.again):
            self._count(probe)

    def fails(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Return whether the bad toolchain fails on the draft as it did on the original. Records any other failure."""
        for attempt in range(self._baseline.repeats):
            outcome = self._compile(draft, self.bad, attempt, cancelled).outcome
            if isinstance(outcome, Failed):
                # Only the root cause counts: later runs identify it by that.
                if self._baseline.match(outcome.failure) and self._operation in ("", self._failing(draft, outcome.failure)):
                    return True
                self._record(outcome.failure, draft)
        return False

    def accept_spelling(self, draft: Draft) -> bool:
        """Return whether a rewritten original fails with the same message as the original, in a signature of its own: a
        signature may depend on source lines that the compiler prints. From then on that signature counts, too.
        """
        start = self._baseline
        outcome = self._compile(draft, self.bad, 0, threading.Event()).outcome
        if not isinstance(outcome, Failed) or not _same_message(outcome.failure, start.failure):
            return False
        self.tally.other_failures.pop(outcome.failure.signature, None)
        as_written, rewritten = start.match, same_signature(outcome.failure)
        self._baseline = replace(start, match=lambda failure: as_written(failure) or rewritten(failure))
        return True

    def keep_operation(self, draft: Draft) -> None:
        """Keep the kind of the operation that fails in the first draft, when the signature is only the class, or the class and
        the name of the operation: the failure of another operation has the same signature.
        """
        outcome = self._compile(draft, self.bad, 0, threading.Event()).outcome
        if isinstance(outcome, Failed):
            self._operation = self._failing(draft, outcome.failure)

    def _failing(self, draft: Draft, failure: Failure) -> str:
        """The kind of operation or dispatch that fails; empty when it is not known or part of the signature."""
        line, name = line_of(failure), failure.failure_class
        if failure.signature not in (name, f"{name}:{failure.details.get('source_op')}"):
            return ""
        if kind := dispatch_kind(str(failure.details.get("function"))):
            return kind
        return (line and self._operation_at(draft.document, line)) or ""

    def compiles(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Return whether the good toolchain compiles the draft, or fails as the original allows; True without one."""
        return self.good is None or self._baseline.is_without(self._compile(draft, self.good, 0, cancelled).outcome)

    @property
    def match(self) -> Match:
        """The comparison of failures, with the spellings accepted."""
        return self._baseline.match

    def other_failures(self) -> list[Failure]:
        """Return the other failures found, the most frequent first."""
        with self._lock:
            counted = sorted(self.tally.other_failures.values(), key=lambda entry: -entry[1])
            return [failure for failure, _ in counted]

    def saved_failures(self) -> list[tuple[Draft, Path]]:
        """Return the smallest draft of each other failure and its file, the most frequent failure first."""
        drafts = [(failure.signature, self._smallest.get(failure.signature)) for failure in self.other_failures()]
        return [(draft, self._file(signature, draft)) for signature, draft in drafts if draft is not None]

    def _record(self, failure: Failure, draft: Draft) -> None:
        """Count another failure and write its smallest program at once, so that an interruption does not lose it."""
        signature = failure.signature
        with self._lock:
            _, count = self.tally.other_failures.get(signature, (failure, 0))
            self.tally.other_failures[signature] = failure, count + 1
            best = self._smallest.get(signature)
            if self._other_failures and (best is None or len(best.document.content) > len(draft.document.content)):
                self._smallest[signature] = draft
                self._file(signature, draft).write_bytes(draft.document.content)

    def _file(self, signature: str, draft: Draft) -> Path:
        """The signature as a file name, with a digest because different signatures may give the same words."""
        assert self._other_failures
        words = re.sub(r"[^A-Za-z0-9]+", "-", signature).strip("-")[:60]
        return self._other_failures / f"{words}-{sha256(signature.encode()).hexdigest()[:6]}.{draft.document.suffix}"

    def start(self, draft: Draft) -> Draft | None:
        """Return the draft that a reduction starts from; None when it cannot."""
        return draft

    def complete(self, draft: Draft) -> Draft | None:
        """Return the draft with all that its case needs to be probed by itself; None when it lacks something."""
        return draft

    def bound(self, draft: Draft) -> Draft | None:
        """Return the draft with the values that it is run with, if it is run; None when it can have none."""
        return draft

    def _compile(self, draft: Draft, toolchain: Toolchain, attempt: int, cancelled: threading.Event) -> Probe:
        with self._written(draft) as case:
            probe = self._trials.trial(case, toolchain, self._baseline.naming, attempt=attempt, cancelled=cancelled)
        self._count(probe)
        return probe

    @contextmanager
    def _written(self, draft: Draft) -> Iterator[Case]:
        """The case of a draft, whose file exists meanwhile."""
        content = draft.document.content
        name = f"{sha256(content).hexdigest()[:24]}-{threading.get_ident()}"
        # A folder for each draft: some compilers derive names from the file name, which must be an identifier.
        path = self._folder / name / f"input.{draft.document.suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        # The case gets another name, so that its evidence is not taken for the recipe's.
        case = replace(draft.case, name=f"{draft.case.name} (reducing)", input=Input(path, draft.document.kind), expect=())
        try:
            yield case
        finally:
            shutil.rmtree(path.parent, ignore_errors=True)  # with the files that a compiler wrote beside it

    def _count(self, probe: Probe) -> None:
        with self._lock:
            if probe.cached:
                self.tally.cached += 1
            elif not isinstance(probe.outcome, Untestable) or probe.measured.seconds:
                self.tally.calls += 1
                self.tally.seconds += probe.measured.seconds


class GrowthOracle(Oracle):
    """Accepts a draft while the baseline's metric is `factor` times as large on the bad toolchain as on the good one.

    A time is measured in turn on both, until the interval of the ratio is on one side of the factor.
    """

    def fails(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Return whether the metric is still that much larger; a draft that does not compile has none."""
        metric, factor = self._baseline.metric, self._baseline.factor
        assert metric
        assert self.good
        low: list[float] = []
        high: list[float] = []
        for attempt in range(_MOST_ATTEMPTS):
            for toolchain, values in ((self.bad, high), (self.good, low)):
                probe = self._compile(draft, toolchain, attempt, cancelled)
                value = value_of(probe, metric)
                if value is None:
                    if isinstance(probe.outcome, Failed):
                        self._record(probe.outcome.failure, draft)
                    return False
                values.append(max(value, 1e-9))
            ratio = min(high) / min(low)
            if metric.exact or not factor / _NEAR < ratio < factor * _CLEAR:
                return ratio > factor
            compared = compare_times(low, high, 0.0) if len(low) in LOOKS else None
            if compared and not compared.low <= factor <= compared.high:
                return compared.low > factor
        return False

    def compiles(self, draft: Draft, cancelled: threading.Event) -> bool:  # noqa: ARG002 - the base class's signature
        """Return True: `fails` compiles on both toolchains."""
        return True


class ParallelFirstMatch:
    """Answers a question about drafts on several threads. Which draft wins does not depend on timing."""

    def __init__(self, ask: Callable[[Draft, threading.Event], bool], jobs: int) -> None:
        """ask: returns the answer for a draft, or raises Interrupted after its event is set."""
        self._ask, self._jobs = ask, jobs
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="draft")

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """Return the first draft in order whose answer is yes, and cancel the later ones that are running."""
        running: deque[tuple[Draft, threading.Event, Future[bool]]] = deque()
        source = iter(drafts)
        try:
            while True:
                while len(running) < self._jobs and (draft := next(source, None)) is not None:
                    cancelled = threading.Event()
                    running.append((draft, cancelled, self._pool.submit(self._ask, draft, cancelled)))
                if not running:
                    return None
                draft, _, answer = running[0]  # stays in the queue until answered, so that it is cancelled with the others
                interesting = answer.result()
                running.popleft()
                if interesting:
                    return draft
        finally:
            for _, cancelled, _ in running:
                cancelled.set()
            for _, _, answer in running:
                with suppress(Interrupted):
                    answer.result()

    def close(self) -> None:
        """End the threads; no question may be running."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class Trail:
    """The drafts that one pass accepted, thinned out evenly: each may be as large as the model."""

    most = 16

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._taken, self._every = 0, 1

    def add(self, draft: Draft) -> None:
        """Record the next draft, or skip it when the trail is thinned out."""
        self._taken += 1
        if self._taken % self._every == 0:
            self.drafts.append(draft)
        if len(self.drafts) > self.most:
            self.drafts = self.drafts[1::2]
            self._every *= 2


class ReductionTest:
    """The interestingness test that passes ask. Asks no question twice and compiles no invalid program."""

    def __init__(
        self,
        oracle: Oracle,
        valid: Callable[[Document], bytes | None],
        save: Callable[[Draft], None],
        jobs: int,
        task: Task,
        settings_hold: Callable[[Case], bool] = lambda _: True,
    ) -> None:
        """valid: returns a program's canonical content, None when it is invalid. save: stores each better draft at once.
        settings_hold: see `SettingsCheck.holds`.
        """
        self.oracle, self._settings_hold = oracle, settings_hold
        self.best: Draft | None = None
        self.trail = Trail()  # of the running pass
        self.strict = False  # ask the good toolchain about every failing draft, not only about a pass's last one
        self.invalid = 0
        self._valid, self._save, self._task = valid, save, task
        self._activity = "the original"
        self._answers: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._parallel = ParallelFirstMatch(self._ask, jobs)

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """Return the first interesting draft in order and make it the best."""
        interesting = self._parallel.first(drafts)
        if interesting is not None:
            self.trail.add(interesting)
            self.settle(interesting)
        return interesting

    def is_valid(self, draft: Draft) -> bool:
        """Return whether the draft is valid and differs from the best one."""
        content = self._valid(draft.document)
        if content is None or self.best is None or settings_of(draft.case) != settings_of(self.best.case):
            return content is not None
        return content != self._valid(self.best.document)

    def settle(self, draft: Draft, *, compiles: bool = False) -> None:
        """Make a draft the best. It is saved only when the good toolchain is known to compile it (`compiles`)."""
        self.best = draft
        if compiles or self.strict or self.oracle.good is None:
            self._save(self.oracle.bound(draft) or draft)
        self.report()

    def report(self, activity: str | None = None) -> None:
        """Show the progress. activity: the pass that starts now, None while the last one continues."""
        self._activity = activity if activity is not None else self._activity
        tally = self.oracle.tally
        size = f"{self.best.document.size} {self.best.document.unit}s" if self.best else ""
        others = sum(count for _, count in tally.other_failures.values())
        self._task.describe(
            f"reduce  {self._activity}  {size}, {tally.calls} compiles, {tally.cached} cache hits, {others} other failures"
        )

    def close(self) -> None:
        """End the threads."""
        self._parallel.close()

    def _ask(self, draft: Draft, cancelled: threading.Event) -> bool:
        content = self._valid(draft.document)
        bound = self.oracle.bound(draft) if content is not None else None
        if content is None or bound is None:
            with self._lock:
                self.invalid += 1
            return False
        draft = bound
        key = sha256(content + repr((settings_of(draft.case), self.strict)).encode()).hexdigest()
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:  # two drafts of one program may be in flight
            if key not in self._answers:
                self._answers[key] = (
                    self.oracle.fails(draft, cancelled)
                    and (not self.strict or self.oracle.compiles(draft, cancelled))
                    and self._settings_hold(draft.case)
                )
                self._task.advance()
            return self._answers[key]


def line_of(failure: Failure) -> int | None:
    """Return the line of `file:line:column`."""
    parts = (failure.location or "").rsplit(":", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _same_message(failure: Failure, other: Failure) -> bool:
    return failure.failure_class == other.failure_class and normalised(failure.headline) == normalised(other.headline)


def settings_of(case: Case) -> tuple[object, ...]:
    """Return the parts of a case that passes change."""
    return case.flags, case.target, case.phase, case.spec, *((case.run,) if case.run else ())
