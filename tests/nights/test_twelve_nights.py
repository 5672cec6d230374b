"""Twelve nights as a release manager has them: shards, a night that was interrupted, an
input that was edited, a case that only newer compilers read, a failure that goes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases, write_case

NIGHTS = 12
CASES = {
    "steady": (),
    "early": ("differs-2", "fixed-6"),
    "late": ("breaks-10",),
    "also-late": ("breaks-10",),
    "newer": ("read-from-5", "breaks-5"),
    "edited": (),
}
# exit code of each night; the first has baseline 1.0.0
CODES = [0, 1, 0, 0, 1, 0, 130, 0, 0, 1, 0, 0]


def _hangs(child: psutil.Process) -> bool:
    with suppress(psutil.Error):  # it has ended
        return "zz-hangs" in " ".join(child.cmdline())
    return False


def interrupt(words: list[str], env: dict[str, str]) -> int:
    """Start a command, and press Ctrl-C when only the last case is not compiled."""
    running = subprocess.Popen(
        words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    process = psutil.Process(running.pid)
    while not any(map(_hangs, process.children(recursive=True))):
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    return running.wait(timeout=180)


def test_twelve_nights(tmp_path: Path, triage: Triage, workplace: Path) -> None:
    folder = tmp_path / "cases"
    for name, words in CASES.items():
        write_case(folder, name, *words)
    with fake_releases(
        tmp_path / "releases", count=NIGHTS + 1, logged=False
    ) as releases:
        env = environment(releases, tmp_path / "home")

        def call(*words: object) -> Any:
            done = triage(*words, "--format", "json", env=env)
            assert done.returncode in (0, 1), done.stderr
            return json.loads(done.stdout)

        codes = []
        for number in range(1, NIGHTS + 1):
            ends = ["-t", f"1.{number}.0", "-b", f"1.{number - 1}.0"]
            words = ["nightly", str(folder), *ends]
            if number == 4:
                parts = [tmp_path / f"shard-{part}" for part in (1, 2)]
                for part, out in enumerate(parts, 1):
                    shard = ("--shard", f"{part}/2", "--out", out)
                    triage(*words, *shard, env=env)
                words = ["nightly", "merge", *map(str, parts)]
            if number == 9:
                write_case(folder, "edited", "breaks-0")
            if number == 7:
                hanging = write_case(folder, "zz-hangs", "hangs")
                words = ["triage", *words, "--jobs", "1", "--out", str(tmp_path / "7")]
                codes.append(interrupt(words, env))
                for path in (hanging, hanging.with_suffix(".mlir")):
                    path.unlink()
            else:
                codes.append(triage(*words, env=env).returncode)
        nights = call("nights", "list")["nights"]
        shown = {name: call("show", name) for name in CASES}
        call("site")
    assert codes == CODES
    assert [night["partial"] for night in nights] == [
        number == 7 for number in range(1, NIGHTS + 1)
    ]
    merged = call("nights", "show", "4")
    assert [case["case"] for case in merged["cases"]] == sorted(CASES)

    states = {
        name: [(one["state"], one["came"]["toolchain"]["name"]) for one in failures]
        for name, case in shown.items()
        for failures in [case["failures"]]
    }
    assert states == {
        "steady": [],
        "early": [("gone", "1.2.0")],
        "late": [("open", "1.10.0")],
        "also-late": [("open", "1.10.0")],
        "newer": [("open", "1.5.0")],
        # nothing tells since which compiler it has the failure of `newer`
        "edited": [("open", "1.5.0")],
    }
    assert shown["edited"]["runs"][0]["is_edited"]
    pages = {name: [one["page"] for one in shown[name]["failures"]] for name in CASES}
    assert pages["late"] == pages["also-late"], "one failure of two cases"
    assert pages["late"] != pages["newer"], "it came with another compiler"

    public = workplace / "public"
    index = (public / "index.html").read_text()
    assert "<h1>Nothing new fails in IREE 1.12.0</h1>" in index
    rows = re.findall(r"<li>\s*<div><h3>", index.partition('class="after"')[0])
    assert len(rows) == 2
    cells = re.findall(r'<a href="nights/(\d+)\.html" class="bad"', index)
    assert cells == ["2", "5", "10"]
