"""The cost of remedies: known metrics, comparison and text."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.remedy.flag_compiler import a_case, failed
from triage.classify.rules import GiveFlag
from triage.model.outcome import Cause, Compiled, Measured, Outcome, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange
from triage.remedy.result import Remedy, RemedyCheck, cost_differences, cost_of, smallest_costs, steps_above
from triage.report.remedy import cost_changes_text, cost_text


def compiled(name: str = "3.3.0", **metrics: float) -> Probe:
    return Probe(a_case(), Revision(name), name, Compiled(), Measured(1.0, 1.0, 100.0, metrics), cached=False)


def test_only_measured_metrics_are_shown() -> None:
    probe = compiled(artifact_bytes=10, dispatches=3, shared_bytes=2048)
    assert cost_of(probe) == {"dispatches": 3, "shared_bytes": 2048}
    assert cost_text(probe) == "1.0 s of CPU to compile, 10 bytes written, dispatches 3, shared memory 2048 bytes"
    assert cost_text(compiled()) == "1.0 s of CPU to compile"


def test_differences_below_a_quarter_are_ignored() -> None:
    one_, other, far = compiled(shared_bytes=16384), compiled(shared_bytes=17408), compiled(shared_bytes=32768)
    smallest = smallest_costs([one_, other, far])
    assert smallest == {"shared_bytes": 16384}
    assert steps_above(one_, smallest) == steps_above(other, smallest) == (0,)
    assert steps_above(far, smallest) == (3,)
    assert steps_above(compiled(), smallest) == (inf,)


def test_zero_is_compared_too() -> None:
    smallest = smallest_costs([compiled(spill_bytes=0), compiled(spill_bytes=36)])
    assert steps_above(compiled(spill_bytes=0), smallest) < steps_above(compiled(spill_bytes=36), smallest)


def test_cost_changes_compare_with_a_compiler_that_needs_no_remedy() -> None:
    plain, remedied = compiled("3.2.0", dispatches=12, shared_bytes=0), compiled("3.2.0", dispatches=17, shared_bytes=0)
    here = compiled(dispatches=17, shared_bytes=64)
    assert cost_differences(plain, here) == {"dispatches": (12, 17), "shared_bytes": (0, 64)}
    remedy = Remedy(CaseChange((GiveFlag("--x=y"),)), here, checks=(RemedyCheck(plain, remedied),))
    assert cost_changes_text(remedy) == (
        "from 3.2.0 without it to 3.3.0 with it: dispatches 12 -> 17, shared memory 0 -> 64 bytes;"
        " on 3.2.0 alone: dispatches 12 -> 17"
    )
    assert cost_changes_text(Remedy(CaseChange((GiveFlag("--x=y"),)), here)) == ""


@pytest.mark.parametrize(
    ("after", "breaks"),
    [
        (Compiled(), False),
        (failed(), True),
        (Untestable(Cause.FLAG, "does not know --x"), True),
        (Untestable(Cause.INPUT, "does not parse"), False),
    ],
)
def test_a_rewritten_input_that_a_version_cannot_parse_breaks_nothing(after: Outcome, breaks: bool) -> None:
    plain = compiled("3.13.0")
    assert RemedyCheck(plain, replace(plain, outcome=after)).breaks is breaks


def test_the_smallest_run_time_is_compared() -> None:
    slow = compiled(run_ms=3060, run_ms_least=2690, run_ms_most=3440)
    busy = compiled(run_ms=3730, run_ms_least=3010, run_ms_most=4460)
    smallest = smallest_costs([slow, busy])
    assert smallest == {"run_ms": 2690}
    assert steps_above(slow, smallest) == steps_above(busy, smallest)
    assert cost_text(slow).endswith("run time 3060 (2690 to 3440) ms")
