"""`--executor dask` in this process: when it connects, what it answers, and who else
could use it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from tests.execution.cluster_lab import Lab, until
from triage.cli.app import app

NOWHERE = "dask:tcp://127.0.0.1:1"


def test_known_results_need_no_scheduler(home: Path, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write(fine="fine", wrong="fail")
    words, invoke = lab.words("fine", "wrong"), CliRunner().invoke
    assert invoke(app, [*words, "--executor", "local"]).exit_code == 1
    for name, code in ((NOWHERE, 1), ("slurm", 2)):
        assert invoke(app, words, env={"TRIAGE_EXECUTOR": name}).exit_code == code


def test_workers_in_this_process_answer_as_threads_do(
    home: Path, tmp_path: Path
) -> None:
    lab = Lab(tmp_path)
    lab.write(fine="fine", wrong="fail", large="x" * 100_000)
    words = [*lab.words("fine", "wrong", "large"), "--format", "json", "--fresh"]
    answers = []
    for name in ("local", "dask"):
        done = CliRunner().invoke(app, [*words, "--executor", name])
        assert done.exit_code == 1, done.output
        rows = json.loads(done.stdout)["results"]
        answers.append([(row["case"], row["status"], row["failure"]) for row in rows])
    assert answers[0] == answers[1]
    assert len(lab.calls()) == 6


def test_no_other_program_can_use_a_local_cluster(tmp_path: Path) -> None:
    """Nothing listens beyond this machine, and what listens has no page."""
    lab = Lab(tmp_path)
    lab.write(slow="wait")
    program = [sys.executable, "-c", "from triage.cli import main; main()"]
    with subprocess.Popen(
        [*program, *lab.words("slow"), "--executor", "dask"],
        env=os.environ | {"TRIAGE_HOME": str(tmp_path / "home")},
    ) as process:
        try:
            until(lab.calls, "the compile starts")
            connections = psutil.Process(process.pid).net_connections(kind="inet")
            listening = [c.laddr for c in connections if c.status == "LISTEN"]
            assert {address.ip for address in listening} <= {"127.0.0.1", "::1"}
            for address in listening:
                # a web server without pages, and no scheduler
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(
                        f"http://127.0.0.1:{address.port}/", timeout=60
                    )
        finally:
            (lab.folder / "go").touch()
    assert process.returncode == 0
