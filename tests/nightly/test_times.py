"""Slower compiles and runs: measured in turn, reported with an interval, and no failure
unless that is asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from tests.execution.invented_programs import Machine
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.execution.in_turn import LEAST, Pace, Ratio
from triage.execution.task import ProbeJob
from triage.model.outcome import Cause, Measured, NoAnswer, Probe
from triage.model.progress import Progress
from triage.nightly.result import SCHEMA, Night, TimeChange, night_bytes, parse_night
from triage.nightly.run import case_result
from triage.nightly.times import compile_times
from triage.report.formats import rendered
from triage.report.night import night_junit, night_screen

CASE = case_named("case")
OLD, MIDDLE, NEW = release_refs(3)


@dataclass
class TimedProber:
    """Compiles with invented CPU times. `order`: the releases as they were asked."""

    true: dict[str, float]
    machine: Machine
    letter: str = "P"
    order: list[str] = field(default_factory=list)
    jobs: int = 4
    progress: Progress = field(default_factory=Progress)

    def probe(self, job: ProbeJob) -> Probe:
        case, ref = job.case, job.ref
        assert job.fresh
        name = ref.revision.name
        self.order.append(name)
        seconds = self.machine.seconds(self.true[name])
        return Probe(
            case,
            ref.revision,
            name,
            outcome(self.letter),
            Measured(seconds, seconds),
            cached=False,
        )


@pytest.mark.parametrize(("new", "pace"), [(9.0, Pace.SLOWER), (2.0, Pace.SAME)])
def test_compiles_are_measured_in_turn_until_the_verdict_is_clear(
    new: float, pace: Pace
) -> None:
    prober = TimedProber({"1.0.0": 2.0, "1.2.0": new}, Machine(1, drift=0.5))
    [times] = compile_times(prober, CASE, OLD, NEW)
    assert times.verdict is pace
    assert len(prober.order) == 2 * LEAST
    assert prober.order[:4] == ["1.0.0", "1.2.0", "1.2.0", "1.0.0"]


@pytest.fixture
def night() -> Night:
    suspects = tuple(
        Suspect(ref.revision.name, probability=0.5) for ref in (MIDDLE, NEW)
    )
    origin = Bisection(
        CASE.name,
        BisectKind.REGRESSION,
        Answer.SUSPECTS,
        OLD.revision,
        NEW.revision,
        suspects,
    )
    times = TimeChange(
        case="case",
        function="decode",
        baseline_seconds=0.002,
        seconds=0.004,
        ratio=Ratio(2.0, 1.9, 2.1),
    )
    rows = [
        replace(times, verdict=Pace.SLOWER, bisection=origin),
        TimeChange(
            case="gpu-case",
            function="decode",
            reason="1.2.0: this machine has no device hip",
        ),
    ]
    compiles = compile_times(
        TimedProber({"1.0.0": 2.0, "1.2.0": 9.0}, Machine(1)), CASE, OLD, NEW
    )
    probes = [
        Probe(CASE, ref.revision, None, outcome("P"), Measured(1.0), cached=False)
        for ref in (OLD, NEW)
    ]
    return Night(
        schema=SCHEMA,
        started="2026-01-01T00:00:00+00:00",
        toolchain=NEW.revision,
        baseline=OLD.revision,
        kind=NEW.kind,
        cases=[case_result(*probes)],
        times=[*rows, *compiles],
    )


def test_a_stored_night_has_the_keys_of_the_printed_one_and_reads_back(
    night: Night,
) -> None:
    stored = night_bytes(night)
    ratio = json.loads(stored)["times"][0]["ratio"]
    assert ratio == {"ratio": 2.0, "low": 1.9, "high": 2.1}
    assert parse_night(stored, "stored").times == night.times
    printed = rendered("json", night, night_screen)
    assert parse_night(printed, "printed").times == night.times


def test_a_bisect_without_an_answer_is_stored_with_its_reason(night: Night) -> None:
    why = NoAnswer(Cause.NOISE, "its times vary too much")
    row = replace(night.times[0], bisection=Bisection.inconclusive(CASE, why))
    slow = replace(night, times=[row])
    printed = rendered("json", slow, night_screen)
    bisection = json.loads(printed)["times"][0]["bisection"]
    assert (bisection["cause"], bisection["reason"]) == ("noise", why.reason)
    for document in (night_bytes(slow), printed):
        [read] = parse_night(document, "stored").times
        assert read.bisection is not None
        assert read.bisection.unanswered == why


def test_json_has_ratio_and_interval_and_no_zero_for_what_was_not_measured(
    night: Night,
) -> None:
    answer = json.loads(rendered("json", night, night_screen))
    run, missing, _ = answer["times"]
    assert run["ratio"] == {"ratio": 2.0, "low": 1.9, "high": 2.1}
    assert run["verdict"] == "slower"
    assert (missing["verdict"], missing["ratio"], missing["seconds"]) == (
        None,
        None,
        None,
    )
    assert "no device hip" in missing["reason"]
    assert (
        run["bisection"]["status"],
        run["bisection"]["after"]["name"],
        missing["bisection"],
    ) == ("suspects", "1.2.0", None)
    compiled, _ = answer["slower"]
    ratio = compiled["ratio"]
    assert 4 < ratio["low"] < ratio["ratio"] < ratio["high"] < 5


@pytest.mark.parametrize(("asked", "failures"), [(False, "0"), (True, "2")])
def test_junit_fails_a_slower_run_only_where_asked(
    night: Night, asked: bool, failures: str
) -> None:
    suite = ElementTree.fromstring(night_junit(replace(night, strict=asked))).find(
        "testsuite"
    )
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "4",
        "failures": failures,
        "skipped": "1",
    }
    assert "introduced between 1.0.0" in ElementTree.tostring(suite, encoding="unicode")
    assert "1.90" in ElementTree.tostring(suite, encoding="unicode")
