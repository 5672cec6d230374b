"""A nightly that is stopped reports what is known, and the line that it prints
continues it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fake_releases import FakeReleases, environment, fake_releases, write_case

CASES = {
    "steady": (),
    "breaks": ("breaks-5",),
    "returns": ("breaks-5", "fixed-7"),
    "fixed": ("breaks-0", "fixed-6"),
}
NIGHTLY = [
    "triage",
    "nightly",
    "cases",
    "-t",
    "1.6.0",
    "-b",
    "1.1.0",
    "--jobs",
    "1",
    "--out",
    "out",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases")) as made:
        yield made


@pytest.fixture
def releases(served: FakeReleases, tmp_path: Path) -> FakeReleases:
    served.log.unlink(missing_ok=True)
    for name, words in CASES.items():
        write_case(tmp_path / "cases", name, *words)
    return served


def stop_when(
    tmp_path: Path,
    releases: FakeReleases,
    words: tuple[str, ...],
    is_due: Callable[[], bool],
    number: int = signal.SIGINT,
) -> str:
    """Start a command, send it a signal as soon as it is due, and return what it
    printed to stderr.
    """
    env = environment(releases, tmp_path / "home")
    running = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not is_due():
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    running.send_signal(number)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130, message
    return message


def continued(
    tmp_path: Path, releases: FakeReleases, message: str
) -> subprocess.CompletedProcess[str]:
    """Run the line that an interrupted command printed, as a shell does."""
    [line] = [line for line in message.splitlines() if line.startswith("  triage ")]
    env = environment(releases, tmp_path / "home")
    return subprocess.run(
        line,
        shell=True,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def report(tmp_path: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((tmp_path / "out" / "nightly.json").read_text())
    return answer


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_stopped_comparison_is_reported_as_partial(
    releases: FakeReleases, tmp_path: Path, number: int
) -> None:
    message = stop_when(
        tmp_path, releases, NIGHTLY, lambda: len(releases.events("start")) >= 6, number
    )
    answer = report(tmp_path)
    assert answer["partial"]
    assert "comparison" in answer["stopped"]
    compared = [*answer["regressed"], *answer["fixed"], *answer["changed"]]
    assert len(compared) + answer["unchanged"] + len(answer["not_compared"]) == len(
        CASES
    )
    assert 1 <= len(answer["not_compared"]) <= 3
    assert "Partial report" in (tmp_path / "out" / "nightly.md").read_text()
    done = continued(tmp_path, releases, message)
    assert done.returncode == 1, done.stderr
    answer = report(tmp_path)
    assert (answer["partial"], answer["stopped"], answer["not_compared"]) == (
        False,
        None,
        [],
    )
    # one compile was in flight
    assert len(releases.events("start")) <= 2 * len(CASES) + 1


def test_a_second_ctrl_c_ends_at_once(releases: FakeReleases, tmp_path: Path) -> None:
    write_case(tmp_path / "stuck", "stuck", "hangs", "stubborn")
    env = environment(releases, tmp_path / "home")
    command = ["triage", "run", "stuck", "-t", "1.0.0"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not releases.events("start"):
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    running.send_signal(signal.SIGINT)
    while not releases.events("term"):  # the compiler is asked to end, and will not
        time.sleep(0.005)
    # signals that follow the first one immediately are taken for the same
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, message = running.communicate()
    assert running.returncode == 130
    assert "triage run" not in message, "the first Ctrl-C came to its end"
    pids = [int(line.split()[4]) for line in releases.log.read_text().splitlines()]
    _, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in set(pids) if psutil.pid_exists(pid)], timeout=20
    )
    assert not alive
