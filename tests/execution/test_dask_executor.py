"""Probes on a Dask cluster, and what goes wrong there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.execution.cluster_lab import Lab, until

pytestmark = pytest.mark.slow


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: result["status"] for name, result in results.items()}


def test_workers_make_the_probes_and_the_client_keeps_the_facts(lab: Lab) -> None:
    lab.write(fine="fine", wrong="fail", other="other")
    lab.worker("first")
    lab.worker("second")
    for is_cached in (False, True):
        code, results, _ = lab.run("fine", "wrong", "other")
        wanted = {"fine": "passed", "wrong": "failed", "other": "passed"}
        assert (code, statuses(results)) == (1, wanted)
        assert {result["cached"] for result in results.values()} == {is_cached}
        assert (lab.records("client"), len(lab.calls())) == (3, 3)


def kill_workers_of(lab: Lab, job: str, times: int) -> None:
    """Kill the worker that makes a job, so many times."""

    def workers() -> list[int]:
        return [int(call[1]) for call in lab.calls() if call[2] == job]

    for number in range(times):
        until(lambda: len(workers()) > number, "the job starts")  # noqa: B023
        os.kill(workers()[number], signal.SIGKILL)


def test_a_job_that_ends_three_workers_is_untestable(lab: Lab) -> None:
    lab.write(deadly="wait", fine="fine")
    lab.worker("first")
    lab.worker("second")
    process = lab.client("deadly", "fine")
    kill_workers_of(lab, "wait", 3)
    code, results, _ = lab.answer(process)
    wanted = {"deadly": "untestable", "fine": "passed"}
    assert (code, statuses(results)) == (4, wanted)
    assert "ended its worker" in results["deadly"]["reason"]
    assert lab.records("client") == 1


def test_a_worker_with_another_compiler_of_that_name_has_no_say(lab: Lab) -> None:
    lab.write(fine="fine")
    lab.liar("liar")
    code, results, _ = lab.run("fine")
    assert (code, statuses(results)) == (4, {"fine": "untestable"})
    assert "other bytes" in results["fine"]["reason"]


def test_ctrl_c_ends_what_runs_on_workers(lab: Lab) -> None:
    lab.write(slow="wait")
    lab.worker("first")
    process = lab.client("slow")
    until(lab.calls, "the job starts")
    process.send_signal(signal.SIGINT)
    code, _, stderr = lab.answer(process)
    assert (code, "To continue" in stderr) == (130, True)
    [[compiler, _, _]] = lab.calls()
    until(lambda: not Path("/proc", compiler).exists(), "the compiler ends")
    (lab.folder / "go").touch()
    assert lab.run("slow")[0] == 0, "the worker goes on"


def test_a_scheduler_that_goes_away_ends_the_command(lab: Lab) -> None:
    lab.write(slow="wait")
    lab.worker("first")
    process = lab.client("slow")
    until(lab.calls, "the job starts")
    lab.end("scheduler")
    code, _, stderr = lab.answer(process)
    assert (code, "finished work is cached" in stderr) == (4, True)


def test_the_compile_of_a_candidate_ends_when_its_client_is_gone(lab: Lab) -> None:
    lab.write(large="this must fail\n" + "wait\n" * 3)
    lab.worker("first")
    process = lab.start_triage(
        "reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}"
    )
    until(lab.calls, "the original is compiled")
    process.kill()
    lab.ended(process)
    until(lambda: not Path("/proc", lab.calls()[0][0]).exists(), "the compiler ends")
