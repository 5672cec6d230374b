"""`--executor dask`: probes on a cluster, what goes wrong there, and who else could use
it.
"""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Asked, Triage
from tests.execution.cluster_lab import COMPILER, Lab
from tests.programs import until, write_program

NOWHERE = "dask:tcp://127.0.0.1:1"


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: result["status"] for name, result in results.items()}


# In this process


@pytest.mark.usefixtures("home")
def test_known_results_need_no_scheduler(tmp_path: Path, triage: Triage) -> None:
    words = Lab(tmp_path).write(fine="fine", wrong="fail")
    for executor, code in (("local", 1), (NOWHERE, 1), ("slurm", 2)):
        assert triage(*words, "--executor", executor).returncode == code


@pytest.mark.usefixtures("home")
def test_workers_in_this_process_answer_as_threads_do(
    tmp_path: Path, asked: Asked
) -> None:
    lab = Lab(tmp_path)
    words = [*lab.write(fine="fine", wrong="fail", large="x" * 100_000), "--fresh"]
    answers = []
    for executor in ("local", "dask"):
        rows = asked(*words, "--executor", executor, code=1)["results"]
        answers.append([(row["case"], row["status"], row["failure"]) for row in rows])
    assert answers[0] == answers[1]
    assert len(lab.calls()) == 6


def test_no_other_program_can_use_a_local_cluster(tmp_path: Path) -> None:
    """Nothing listens beyond this machine, and what listens has no page."""
    lab = Lab(tmp_path)
    with lab.client(lab.write(slow="wait"), "dask") as process:
        try:
            until(lab.calls)
            connections = psutil.Process(process.pid).net_connections(kind="inet")
            listening = [c.laddr for c in connections if c.status == "LISTEN"]
            assert {address.ip for address in listening} <= {"127.0.0.1", "::1"}
            for address in listening:
                # a web server without pages, and no scheduler
                page = f"http://127.0.0.1:{address.port}/"
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(page, timeout=60)
        finally:
            (lab.folder / "go").touch()
    assert process.returncode == 0


# On a cluster


@pytest.mark.slow
def test_a_job_that_ends_three_workers_is_untestable(lab: Lab) -> None:
    words = lab.write(deadly="wait", fine="fine")
    lab.worker("first")
    lab.worker("second")
    process = lab.client(words)

    def workers() -> list[int]:
        return [int(worker) for _, worker, text in lab.calls() if text == "wait"]

    for number in range(3):
        until(lambda: len(workers()) > number)  # noqa: B023
        os.kill(workers()[number], signal.SIGKILL)
    code, results, _ = lab.answer(process)
    wanted = {"deadly": "untestable", "fine": "passed"}
    assert (code, statuses(results)) == (4, wanted)
    assert "ended its worker" in results["deadly"]["reason"]
    # it has no result: a single worker is asked again
    (lab.folder / "go").touch()
    lab.worker("third")
    code, results, _ = lab.answer(lab.client(words))
    assert {name: result["cached"] for name, result in results.items()} == {
        "deadly": False,
        "fine": True,
    }


#: Python that a worker runs first: every toolchain is the one in another folder.
LIE = """
from dataclasses import replace
from pathlib import Path
from triage.toolchains.registry import ToolchainRegistry
obtain = ToolchainRegistry._obtain
ToolchainRegistry._obtain = lambda self, ref: obtain(self, replace(ref, path=Path(FOLDER)))
"""


@pytest.mark.slow
def test_a_worker_with_another_compiler_of_that_name_has_no_say(lab: Lab) -> None:
    words = lab.write(fine="fine")
    other = lab.folder / "other"
    write_program(other / "bin" / "cc", f"{COMPILER}# other bytes\n")
    lie = LIE.replace("FOLDER", repr(str(other)))
    write_program(lab.folder / "lie" / "sitecustomize.py", lie)
    lab.worker("liar", PYTHONPATH=str(lab.folder / "lie"))
    code, results, _ = lab.answer(lab.client(words))
    assert (code, statuses(results)) == (4, {"fine": "untestable"})
    assert "other bytes" in results["fine"]["reason"]


def expect_compiler_to_end(lab: Lab) -> None:
    compiler = lab.calls()[0][0]
    until(lambda: not Path("/proc", compiler).exists())


@pytest.mark.slow
def test_ctrl_c_ends_what_runs_on_workers(lab: Lab) -> None:
    words = lab.write(slow="wait")
    lab.worker("first")
    process = lab.client(words)
    until(lab.calls)
    process.send_signal(signal.SIGINT)
    code, _, stderr = lab.answer(process)
    assert (code, "To continue" in stderr) == (130, True)
    expect_compiler_to_end(lab)
    assert len(lab.calls()) == 1
    (lab.folder / "go").touch()
    assert lab.answer(lab.client(words))[0] == 0, "the worker goes on"


@pytest.mark.slow
def test_a_scheduler_that_goes_away_ends_the_command(lab: Lab) -> None:
    words = lab.write(slow="wait")
    lab.worker("first")
    process = lab.client(words)
    until(lab.calls)
    lab.end("scheduler")
    code, _, stderr = lab.answer(process)
    assert (code, "finished work is cached" in stderr) == (4, True)


@pytest.mark.slow
def test_the_compile_of_a_candidate_ends_when_its_client_is_gone(lab: Lab) -> None:
    _, *words = lab.write(large="this must fail\n" + "wait\n" * 3)
    lab.worker("first")
    process = lab.client(["reduce", *words])
    until(lab.calls)
    process.kill()
    process.communicate()
    expect_compiler_to_end(lab)
