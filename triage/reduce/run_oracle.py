"""The interestingness test of programs that compile and compute something wrong, or fail when they run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from triage.compilers.values import differences, element_of, read_value
from triage.execution.engine import Engine
from triage.model.case import Reference
from triage.model.outcome import Failed, Untestable
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.interestingness import Oracle
from triage.reduce.program import Candidate
from triage.reduce.run_values import ArgumentValues


class RunOracle(Oracle):
    """Compiles candidates and runs them. The reference computes what a candidate must return.

    A candidate counts only if its results are defined: the reference runs it, returns finite numbers where it did so for the
    original, does not read memory that was never written to, and a second reference agrees with it.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        bad: Toolchain,
        good: Toolchain | None,
        baseline: Baseline,
        values: ArgumentValues,
        references: Sequence[Reference],
        results: Path,
    ) -> None:
        """references: who computes what is expected, then others, of which the first that agrees on the original confirms it.
        results: folder for what they compute.
        """
        super().__init__(engine, folder, bad, good, baseline)
        self._values, self._results = values, results
        self._references = list(references)
        self._finite = False
        self._tolerances: dict[str, float] = {}

    def start(self, candidate: Candidate) -> Candidate | None:
        """Take over the values of the original program, and choose the second reference.

        Returns:
            The candidate without values; None when it cannot be given others.
        """
        ready = self._values.start(candidate)
        bound = self.bound(ready) if ready else None
        if ready is None or bound is None:
            return None
        assert ready.case.run is not None
        self._tolerances = dict(ready.case.run.tolerances)
        expected = self._expected(bound, self._references[0])
        if expected is None:
            return None
        self._finite = self._is_finite(expected)
        agreeing = (other for other in self._references[1:] if self._agree(expected, self._expected(bound, other)))
        second = next(agreeing, None)
        self._references[1:] = [second] if second else []
        if second is None:
            self.notes.append("no second toolchain computes the expected results as well, so that only one confirms them")
        return ready

    def bound(self, candidate: Candidate) -> Candidate | None:
        return self._values.bound(candidate)

    def complete(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate with its values and the results that it must compute."""
        bound = self.bound(candidate)
        expected = self._expected(bound, self._references[0]) if bound else None
        if bound is None or expected is None:
            return None
        texts = tuple(self._short(text) for text in expected)
        assert bound.case.run is not None
        return Candidate(candidate.document, replace(bound.case, run=replace(bound.case.run, expected=texts, reference=None)))

    def fails(self, candidate: Candidate, cancelled: threading.Event) -> bool:
        """Return whether the bad toolchain's program fails as it did on the original, where the reference runs it."""
        expected = self._expected(candidate, self._references[0], cancelled)
        if expected is None or (self._finite and not self._is_finite(expected)):
            return False
        assert candidate.case.run is not None
        run = replace(candidate.case.run, expected=expected, reference=None)
        outcome = self._compile(Candidate(candidate.document, replace(candidate.case, run=run)), self.bad, 0, cancelled).outcome
        if not isinstance(outcome, Failed) or outcome.flaky or not self._baseline.match(outcome.failure):
            return False
        return all(self._agree(expected, self._expected(candidate, other, cancelled)) for other in self._references[1:])

    def keep_operation(self, candidate: Candidate) -> None:
        """Do nothing: a run names no operation."""

    def compiles(self, candidate: Candidate, cancelled: threading.Event) -> bool:  # noqa: ARG002 - the base class's signature
        """Return True: `fails` asks the reference."""
        return True

    def _expected(
        self, candidate: Candidate, reference: Reference, cancelled: threading.Event | None = None
    ) -> tuple[str, ...] | None:
        with self._written(candidate) as case:
            results = self._engine.planner.reference_results(
                case, self.bad, reference, folder=self._results, made=self._count, cancelled=cancelled
            )
        return None if isinstance(results, Untestable) else results

    def _is_finite(self, texts: Sequence[str]) -> bool:
        arrays = [read_value(text) for text in texts]
        return all(array is not None and bool(np.isfinite(array).all()) for array in arrays)

    def _agree(self, texts: Sequence[str], others: Sequence[str] | None) -> bool:
        if others is None or len(texts) != len(others):
            return False
        pairs = zip(texts, others, strict=True)
        return all(differences(text, other, self._tolerances).get("mismatches", 1) == 0 for text, other in pairs)

    def _short(self, text: str) -> str:
        array = read_value(text)
        return text if array is None else self._values.text(array, element_of(text))
