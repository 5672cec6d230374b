"""Compare the cases of a matrix, to find the values that a failure depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from triage.execution.compare import same_class
from triage.execution.engine import Engine
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.fields import in_json
from triage.model.outcome import (
    Exit,
    Failed,
    Failure,
    Probe,
    ProbeResult,
    exit_without_answer,
)
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True, kw_only=True)
class Variant(ProbeResult):
    """The result of one variant."""

    values: Mapping[str, str]
    same_failure: bool
    """Whether it fails with the failure that is compared."""


@dataclass(frozen=True)
class Variants:
    """The results of all variants, and what the failure depends on."""

    depends_on: tuple[str, ...]
    """The keys that decide whether a variant fails."""
    sentence: str
    failure: Failure | None
    results: tuple[Variant, ...]

    @in_json
    def keys(self) -> list[str]:
        """All keys that vary."""
        return list(
            dict.fromkeys(key for variant in self.results for key in variant.values)
        )

    @property
    def exit(self) -> Exit:
        if self.failure is None:
            return exit_without_answer(*(variant.cause for variant in self.results))
        return Exit.OK


def compare_variants(
    engine: Engine, cases: Sequence[Case], ref: ToolchainRef, about: Case | None = None
) -> Variants:
    """Find the keys that the failure of the case `about` depends on. Without it, this
    is the failure of the first case that fails. Failures are compared by class.
    """
    jobs = [ProbeJob(case, ref) for case in cases]
    probes = engine.probe_in_order(jobs, "variants")
    failing = (
        probe.outcome.failure
        for probe in probes
        if isinstance(probe.outcome, Failed) and about in (None, probe.case)
    )
    failure = next(failing, None)
    results = tuple(_variant(probe, failure) for probe in probes)
    if failure is None:
        sentence = f"{about.name} does not fail." if about else "No case fails."
        return Variants((), sentence, failure, results)
    keys, sentence = deciding_keys(results)
    return Variants(keys, sentence, failure, results)


def _variant(probe: Probe, failure: Failure | None) -> Variant:
    outcome = probe.outcome
    is_same = False
    if failure and isinstance(outcome, Failed):
        is_same = any(map(same_class(failure), (outcome.failure, *outcome.others)))
    values = dict(probe.case.matrix)
    return Variant(**vars(result_of(probe)), values=values, same_failure=is_same)


def deciding_keys(variants: Sequence[Variant]) -> tuple[tuple[str, ...], str]:
    """Find the smallest set of keys whose values separate the variants with the failure
    from the others. Untestable variants are ignored.

    Returns:
        These keys, or all keys that vary if no set separates the variants; and a
            sentence.
    """
    testable = [variant for variant in variants if not variant.untestable]
    failing = [variant.values for variant in testable if variant.same_failure]
    keys = [
        key
        for key in dict.fromkeys(key for variant in testable for key in variant.values)
        if len({variant.values.get(key) for variant in testable}) > 1
    ]
    bad = {key: list(dict.fromkeys(values[key] for values in failing)) for key in keys}

    def separate(chosen: Sequence[str]) -> bool:
        """Return whether each variant with bad values of these keys fails."""
        return all(
            variant.same_failure
            for variant in testable
            if all(variant.values[key] in bad[key] for key in chosen)
        )

    sizes = range(len(keys) + 1)
    subsets = chain.from_iterable(combinations(keys, size) for size in sizes)
    deciding = next(filter(separate, subsets), None)
    if deciding is None:
        text = f"It fails in {len(failing)} of {len(testable)} cases, which no single "
        text += "combination of values describes"
        deciding = tuple(keys)
    elif deciding:
        values = [f"{key}={' or '.join(bad[key])}" for key in deciding]
        text = f"It fails exactly for {' and '.join(values)}"
    else:
        text = f"It fails for all values of {' and '.join(keys) or 'the recipe'}"
    others = sum(variant.failed and not variant.same_failure for variant in variants)
    if others:
        text += f"; {others} of {len(variants)} fail in another way"
    untested = len(variants) - len(testable)
    if untested:
        text += f"; {untested} of {len(variants)} cannot be tested"
    return deciding, f"{text}."
