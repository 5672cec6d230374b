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

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Failed, Outcome, Passed, Probe
from triage.reduce.baseline import Baseline
from triage.reduce.program import ReducedCase
from triage.toolchains.registry import ToolchainRef


@dataclass
class CompileTest:
    """Compiles candidates. Safe for several threads; deletes each candidate's file
    after its compile.
    """

    engine: Engine
    baseline: Baseline
    folder: Path
    """An existing folder for the candidates' files."""
    probes: list[Probe] = field(default_factory=list)
    """All compiles that were made or looked up."""
    is_complete: bool = False
    """Whether each candidate gets the complete test, with the good toolchain; else only
    the result of each pass does.
    """

    def begin(self, original: ReducedCase) -> ReducedCase | None:
        """Return the candidate to start from; None if it does not fail as the
        original.
        """
        if self.is_interesting(original, threading.Event()):
            return original
        return None

    def ready(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with the values that it is run with; None if there are
        no values for it.
        """
        return candidate

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Return whether a candidate fails as the original does. Raises Interrupted
        when `stop` is set.
        """
        baseline = self.baseline
        with self.on_disk(candidate) as case:
            for attempt in range(baseline.repeats):
                outcome = self.compile(case, baseline.request.bad, stop, attempt)
                # Only the root cause counts: later runs identify it by that.
                if isinstance(outcome, Failed) and baseline.match(outcome.failure):
                    return not self.is_complete or self._passes_on_good(case, stop)
        return False

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Return whether an interesting candidate passes the complete test. If not,
        each candidate gets it from now on.
        """
        before, self.is_complete = self.is_complete, True
        ready = self.ready(candidate)
        assert ready  # it is interesting
        is_confirmed = self.is_interesting(ready, threading.Event())
        self.is_complete = before or not is_confirmed
        return is_confirmed

    def complete(self, candidate: ReducedCase) -> ReducedCase:
        """Return the candidate with all that its case needs to be probed by itself."""
        return candidate

    def _passes_on_good(self, case: Case, stop: threading.Event) -> bool:
        good = self.baseline.request.good
        return good is None or isinstance(self.compile(case, good, stop), Passed)

    def compile(
        self, case: Case, ref: ToolchainRef, stop: threading.Event, attempt: int = 0
    ) -> Outcome:
        """Compile a candidate, or look it up."""
        job = ProbeJob(
            case,
            ref,
            once=self.baseline.naming,
            attempt=attempt,
            stop=stop,
            here=not self.baseline.is_portable,
        )
        probe = self.engine.probe(job)
        self.probes.append(probe)
        return probe.outcome

    @contextmanager
    def on_disk(self, candidate: ReducedCase) -> Iterator[Case]:
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

    @property
    def jobs(self) -> int:
        """How many candidates can be compiled at once."""
        if self.baseline.is_portable:
            return self.engine.jobs
        return self.engine.local_jobs

    @property
    def calls(self) -> int:
        """Compiles that were made."""
        return sum(not probe.cached for probe in (*self.baseline.probes, *self.probes))
