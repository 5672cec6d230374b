"""Probes on a Dask cluster, and what goes wrong there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.execution.cluster_lab import Lab, until
from triage.cli import dask_worker
from triage.cli.dask_worker import versions
from triage.execution.dask_executor import open_cluster
from triage.execution.dask_workers import WorkerCode

pytestmark = pytest.mark.slow


def test_workers_make_the_probes_and_the_client_keeps_the_facts(lab: Lab) -> None:
    lab.write(fine="fine", wrong="fail", other="other")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("fine", "wrong", "other")
    assert code == 1
    assert {name: (result["status"], result["cached"]) for name, result in results.items()} == {
        "fine": ("passed", False),
        "wrong": ("failed", False),
        "other": ("passed", False),
    }
    assert (lab.records("client"), lab.records("first") + lab.records("second")) == (3, 3)
    calls = lab.calls()
    code, results, _ = lab.run("fine", "wrong", "other")
    assert (code, {result["cached"] for result in results.values()}, lab.calls()) == (1, {True}, calls)


def test_a_job_whose_worker_is_killed_is_made_elsewhere_and_counted_once(lab: Lab) -> None:
    lab.write(unlucky="die-once", fine="fine")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("unlucky", "fine")
    assert (code, {result["status"] for result in results.values()}) == (0, {"passed"})
    assert [call[2] for call in lab.calls()].count("die-once") == 2
    assert lab.records("client") == 2


def test_jobs_that_were_sent_together_are_sent_alone_when_their_worker_dies(lab: Lab) -> None:
    names = [f"fine{number}" for number in range(15)]
    lab.write(deadly="die", **{name: name for name in names})
    lab.worker("first")
    first = "from triage.execution import dask_executor as d; d._MANY_SLOTS = 0; "  # as for 200 workers
    code, results, _ = lab.answer(lab.client("deadly", *names, first=first))
    assert (code, results.pop("deadly")["status"]) == (4, "untestable")
    assert ({result["status"] for result in results.values()}, len(results)) == ({"passed"}, 15)
    assert lab.records("client") == 15


def test_a_job_that_ends_three_workers_is_untestable(lab: Lab) -> None:
    lab.write(deadly="die", fine="fine")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("deadly", "fine")
    assert (code, results["deadly"]["status"], results["fine"]["status"]) == (4, "untestable", "passed")
    assert "KilledWorker" in results["deadly"]["reason"]
    assert [call[2] for call in lab.calls()].count("die") == 6, "with other jobs on the workers, then alone"
    assert lab.records("client") == 1


def test_a_worker_with_another_compiler_of_that_name_has_no_say(lab: Lab) -> None:
    lab.write(fine="fine", wrong="fail")
    lab.liar("liar")
    code, results, _ = lab.run("fine")
    assert (code, results["fine"]["status"]) == (4, "untestable")
    assert "other bytes" in results["fine"]["reason"]
    lab.worker("honest")
    code, results, _ = lab.run("fine", "wrong")
    assert (code, results["fine"]["status"], results["wrong"]["status"]) == (1, "passed", "failed")
    assert (lab.records("client"), lab.records("liar")) == (2, 0)


def test_a_worker_whose_disk_is_full_passes_jobs_on(lab: Lab) -> None:
    lab.write(fine="fine", other="other")
    (lab.folder / "home-full").mkdir()
    (lab.folder / "home-full" / "delivered").symlink_to("/proc/1/full")  # nothing can be written there
    lab.worker("full")
    lab.worker("sound")
    code, results, _ = lab.run("fine", "other")
    assert (code, {result["status"] for result in results.values()}) == (0, {"passed"})
    assert lab.records("sound") == 2


def test_a_restarted_scheduler_loses_no_result(lab: Lab) -> None:
    lab.write(fine="fine", slow="wait")
    lab.worker("first")
    process = lab.client("fine", "slow")
    until(lambda: any(call[2] == "wait" for call in lab.calls()), "the second job starts")
    lab.end("scheduler")
    lab.end("first")
    lab.scheduler()
    lab.worker("second")
    (lab.toolchain / "bin" / "go").touch()
    code, results, stderr = lab.answer(process)
    assert (code, [result["status"] for result in results.values()]) == (0, ["passed", "passed"]), stderr
    assert lab.records("client") == 2


def test_a_worker_that_is_cut_off_for_a_while_is_not_counted_twice(lab: Lab) -> None:
    lab.write(slow="wait")
    lab.worker("first", "--no-nanny")
    process = lab.client("slow")
    until(lab.calls, "the job starts")
    os.kill(lab.processes["first"].pid, signal.SIGSTOP)
    lab.worker("second", "--no-nanny")
    until(lambda: len(lab.calls()) == 2, "the job starts elsewhere")
    (lab.toolchain / "bin" / "go").touch()
    os.kill(lab.processes["first"].pid, signal.SIGCONT)
    code, results, stderr = lab.answer(process)
    assert (code, [result["status"] for result in results.values()]) == (0, ["passed"]), stderr
    assert lab.records("client") == 1


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
    (lab.toolchain / "bin" / "go").touch()
    assert lab.run("slow")[0] == 0, "the worker goes on"


def test_a_worker_of_another_version_is_refused(lab: Lab) -> None:
    lab.write(fine="fine")
    lab.newer("newer")
    code, _, stderr = lab.run("fine")
    assert (code, "triage 99.0" in stderr) == (4, True)


def test_workers_that_join_later_are_used_if_they_have_the_same_version(lab: Lab) -> None:
    names = [f"job{number}" for number in range(12)]
    lab.write(**{name: f"wait {name}" for name in names})
    lab.worker("first")
    process = lab.client(*names, first="from triage.execution import dask_workers as d; d._LOOK = 0; ")
    until(lambda: lab.calls(), "the first job waits")
    lab.newer("newer")
    lab.worker("second")
    (lab.toolchain / "bin" / "go").touch()
    code, results, _ = lab.answer(process)
    assert (code, {result["status"] for result in results.values()}) == (0, {"passed"})
    assert ((lab.folder / "home-newer" / "evidence.db").exists(), lab.records("second") > 1) == (False, True)
    assert lab.records("first") + lab.records("second") == lab.records("client") == 12


def test_a_worker_that_joins_later_offers_its_devices(lab: Lab) -> None:
    lab.worker("plain")
    code = WorkerCode(dask_worker.ProbePlugin, dask_worker.probe_here, dask_worker.build_here, dask_worker.content, versions)
    with open_cluster(lab.address, None, 1000.0, code) as cluster:
        assert (cluster.slots, dict(cluster.resources)) == (1, {})
        lab.worker("gpu", "--nthreads", "2", "--resources", "hip=1 memory=500")
        assert cluster.look(at_once=True) == []
        assert (cluster.slots, cluster.resources) == (3, {"hip": 1, "memory": 500})
        lab.newer("newer")
        assert len(cluster.look(at_once=True)) == 1
        assert (cluster.slots, cluster.look(at_once=True)) == (3, [])
        lab.end("gpu")
        until(lambda: not cluster.look(at_once=True) and cluster.slots == 1, "the worker is gone")
        assert cluster.resources == {}


def test_a_scheduler_that_is_not_there_is_an_environment_failure(lab: Lab) -> None:
    lab.write(fine="fine")
    lab.end("scheduler")
    code, _, stderr = lab.run("fine")
    assert (code, lab.address in stderr) == (4, True)
