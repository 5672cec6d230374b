from __future__ import annotations

from pathlib import Path

import pytest

from tests.timeline.history import History
from triage.model.errors import EnvironmentFailure
from triage.timeline import Timeline
from triage.toolchains.sources import Offer, Prices, Unobtainable, Workplace
from triage.toolchains.sources.command import ScriptedToolchains
from triage.toolchains.sources.running import Log, TimedOut, run


@pytest.fixture
def timeline(history: History) -> Timeline:
    history.commit("one")
    history.commit("two")
    return Timeline(history.path)


def offer(timeline: Timeline, mine: ScriptedToolchains) -> Offer:
    return mine.offers(timeline, range(1, 2))[0]


def test_the_last_line_is_the_toolchain(timeline: Timeline, place: Workplace, prices: Prices, tmp_path: Path) -> None:
    script = tmp_path / "fetch it.sh"
    script.write_text(
        '#!/bin/sh\necho chatter\necho >&2 noise\nmkdir -p "tc/$1" && echo "$TRIAGE_COMMIT" > "tc/$1/sha"\necho "tc/$1"\n'
    )
    script.chmod(0o755)
    mine = ScriptedToolchains(place, prices, "'./fetch it.sh'", tmp_path)
    assert offer(timeline, mine).seconds == 120
    folder = mine.obtain(offer(timeline, mine))
    assert (folder / "sha").read_text().strip() == timeline.commits[1].sha
    assert offer(timeline, mine).seconds < 10
    log = (place.home / "logs" / f"command-{timeline.commits[1].sha[:16]}.log").read_text()
    assert "chatter" in log
    assert "noise" in log


@pytest.mark.parametrize(
    ("command", "error", "said"),
    [
        ("exit 125 #", Unobtainable, "has no toolchain of .* it ended with 125"),
        ("true", Unobtainable, "printed no path"),
        ("echo /no/such/folder; true", Unobtainable, "printed /no/such/folder .* does not exist"),
        ("./missing.sh", EnvironmentFailure, "cannot be run"),
        ("kill -SEGV $$; true", EnvironmentFailure, "was killed by signal 11"),
        ("sleep 60 #", EnvironmentFailure, "took more than 0 s"),
    ],
)
def test_ways_to_have_none(
    timeline: Timeline, place: Workplace, prices: Prices, tmp_path: Path, command: str, error: type[Exception], said: str
) -> None:
    mine = ScriptedToolchains(place, prices, command, tmp_path, timeout=0.3)
    with pytest.raises(error, match=said.replace("folder .*", "folder, which")) as caught:
        mine.obtain(offer(timeline, mine))
    assert isinstance(caught.value, Unobtainable) == (error is Unobtainable)


def test_a_log_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.write(b"first\n")
        for number in range(40):
            log.write(bytes([65 + number % 26]) * (1 << 19))
        log.write(b"\nlast")
    data = (tmp_path / "log").read_bytes()
    assert data.startswith(b"first\nAAAA")
    assert data.endswith(b"\nlast")
    assert "bytes left out" in data.decode()
    assert len(data) < 9 << 20
    with Log(tmp_path / "short") as log:
        log.write(b"all of it")
    assert (tmp_path / "short").read_bytes() == b"all of it"


def test_what_a_command_leaves_behind_does_not_hold_it_up(place: Workplace, tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        done = run(["sh", "-c", "sleep 50 & echo done"], log, place, env={"PATH": "/bin:/usr/bin"}, cwd=tmp_path, timeout=20)
        assert (done.status, done.last_line) == (0, "done")
        with pytest.raises(TimedOut):
            run(["sh", "-c", "exec >&- 2>&-; sleep 50"], log, place, env={"PATH": "/bin:/usr/bin"}, cwd=tmp_path, timeout=0.3)
