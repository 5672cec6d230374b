"""A nightly that is stopped reports what is known, and the line that it prints
continues it.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Asked
from tests.fake_releases import FakeReleases, environment, fake_releases, write_case
from triage.nightly.store import read_night

CASES = 4
NIGHTLY = "triage nightly cases -t 1.6.0 -b 1.1.0 --jobs 1 --out out"


@pytest.fixture
def releases(tmp_path: Path) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path / "releases", paced=True) as made:
        yield made


def started(tmp_path: Path, releases: FakeReleases, line: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        line,
        shell=True,
        cwd=tmp_path,
        env=environment(releases, tmp_path / "home"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(
    running: subprocess.Popen[str], releases: FakeReleases, event: str, count: int = 1
) -> None:
    """Wait for so many events of the compilers."""
    while len(releases.events(event)) < count:
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)


@pytest.mark.parametrize(
    "stop", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_stopped_comparison_is_reported_as_partial(
    releases: FakeReleases, tmp_path: Path, asked: Asked, stop: int
) -> None:
    for number in range(CASES):
        write_case(tmp_path / "cases", f"case-{number}", "breaks-5")
    running = started(tmp_path, releases, f"exec {NIGHTLY}")
    wait_for(running, releases, "start", 6)
    running.send_signal(stop)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130, message
    report = read_night(tmp_path / "out")
    assert report.stopped == "interrupted"
    assert 1 <= len(report.not_compared) <= 3
    assert len(report.cases) + len(report.not_compared) == CASES
    missing = f"{len(report.not_compared)} of {CASES} cases not compared"
    assert missing in (tmp_path / "out" / "nightly.md").read_text()
    [line] = [line for line in message.splitlines() if line.startswith("  triage ")]
    done = started(tmp_path, releases, line)
    _, message = done.communicate()
    assert done.returncode == 1, message
    report = read_night(tmp_path / "out")
    assert (report.partial, report.not_compared) == (False, [])
    # one compile was in flight
    assert len(releases.events("start")) <= 2 * CASES + 1
    nights = asked("nights", "list", env=environment(releases, tmp_path / "home"))
    assert [night["partial"] for night in nights["nights"]] == [True, False]


def test_a_second_ctrl_c_ends_at_once(releases: FakeReleases, tmp_path: Path) -> None:
    write_case(tmp_path / "stuck", "stuck", "hangs", "stubborn")
    running = started(tmp_path, releases, "exec triage run stuck -t 1.0.0")
    wait_for(running, releases, "start")
    running.send_signal(signal.SIGINT)
    wait_for(running, releases, "term")  # the compiler is asked to end, and will not
    # signals that follow the first one immediately are taken for the same
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, message = running.communicate()
    assert running.returncode == 130
    assert "triage run" not in message, "the first Ctrl-C came to its end"
    pids = {int(line.split()[4]) for line in releases.log.read_text().splitlines()}
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    assert not psutil.wait_procs(processes, timeout=20)[1]
