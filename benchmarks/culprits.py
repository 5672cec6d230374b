"""Count what finding a culprit takes, next to `git bisect`.

Run: `python -m benchmarks.culprits`. A git repository of 240 commits that build a small
native compiler is bisected with `triage bisect` and with `git bisect run`. A fifth of
its commits does not build, has another failure or crashes, but none next to the
culprit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TRIAGE, Ratio, cost_of
from tests.bisect.driving import COMMAND, CULPRIT, MIXED, PROJECT, SCRIPT
from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, SmallCompiler, begin
from tests.git_history.history import ENV


@dataclass(frozen=True)
class Bisected:
    """One bisect of the small compiler: commits built, compiles, wall seconds, and
    whether the culprit alone was named.
    """

    built: int
    compiles: int
    seconds: float
    right: bool


def _prepared(folder: Path) -> dict[str, str]:
    """Write recipe, project and build script into a new folder; return the environment
    to bisect in.
    """
    folder.mkdir()
    script = folder / "toolchain.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (folder / "m.mlir").write_text(PROGRAM)
    (folder / "attention.yaml").write_text(RECIPE)
    (folder / "triage.yaml").write_text(PROJECT + COMMAND.format(script=script))
    (folder / "calls").touch()
    own = {
        CALLS: str(folder / "calls"),
        "TRIAGE_HOME": str(folder / "home"),
    }
    return os.environ | ENV | own


def _bisected(
    folder: Path, small: SmallCompiler, seconds: float, named: set[str]
) -> Bisected:
    events = [line.split()[1] for line in (folder / "calls").read_text().splitlines()]
    return Bisected(
        events.count("build"),
        len(events) - events.count("build"),
        seconds,
        named == {small.sha},
    )


def with_triage(folder: Path, small: SmallCompiler) -> Bisected:
    """Bisect the commits with triage, which also verifies the ends and confirms the
    answer.
    """
    env = _prepared(folder)
    ends = [
        "--good",
        f"commit:{small.shas[0]}",
        "--bad",
        f"commit:{small.shas[-1]}",
        "--jobs",
        "1",
    ]
    where = [
        "--repo",
        str(small.path),
        "--project",
        str(folder / "triage.yaml"),
        "--format",
        "json",
    ]
    # the small compiler notes its calls outside of its folder
    done = cost_of(
        [
            *TRIAGE,
            "--unsealed",
            "bisect",
            str(folder / "attention.yaml"),
            *ends,
            *where,
        ],
        env=env,
        codes=(0, 3),
    )
    named = {suspect["commit"] for suspect in json.loads(done.stdout)["suspects"]}
    return _bisected(folder, small, done.wall, named)


def with_git(folder: Path, small: SmallCompiler, missing: int) -> Bisected:
    """Bisect with `git bisect run`. missing: exit code of the test where a commit does
    not build (1 is bad, 125 skips).
    """
    env = _prepared(folder)
    flags = "--iree-hal-target-backends=rocm --iree-hip-target=gfx942 --compile-to=executable-targets"
    test = folder / "test"
    test.write_text(f"""#!/bin/sh
export TRIAGE_COMMIT="$(git rev-parse BISECT_HEAD)" TRIAGE_SOURCE={folder}/source TRIAGE_OUT={folder}/out
rm -rf "$TRIAGE_SOURCE" "$TRIAGE_OUT"
mkdir "$TRIAGE_SOURCE" "$TRIAGE_OUT"
git archive BISECT_HEAD | tar -x -C "$TRIAGE_SOURCE"
{folder}/toolchain.sh >/dev/null 2>&1 || exit {missing}
"$TRIAGE_OUT/tools/iree-compile" {flags} {folder}/m.mlir -o /dev/null 2>/dev/null || exit 1
""")
    test.chmod(0o755)
    clone = folder / "clone"
    subprocess.run(
        [
            "git",
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            str(small.path),
            str(clone),
        ],
        env=env,
        check=True,
    )
    start = [
        "git",
        "bisect",
        "start",
        "--no-checkout",
        "--first-parent",
        small.shas[-1],
        small.shas[0],
    ]
    subprocess.run(start, cwd=clone, env=env, check=True, capture_output=True)
    done = cost_of(
        ["git", "bisect", "run", str(test)], cwd=clone, env=env, codes=(0, 1, 2, 3)
    )
    culprit = re.search(
        r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE
    )
    several = done.stdout.partition("could be any of:")[2]
    named = (
        {culprit[1]}
        if culprit
        else set(re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE))
    )
    return _bisected(folder, small, done.wall, named)


def ratios() -> Iterator[Ratio]:
    """Bisect two histories: the culprit's subject is suspicious in the first, another
    commit's in the second.
    """
    with TemporaryDirectory() as scratch:
        for name, suspicious in (("helpful", None), ("misleading", 180)):
            small = begin(Path(scratch, name), MIXED, CULPRIT, suspicious=suspicious)
            mine = with_triage(Path(scratch, f"{name}-triage"), small)
            for peer, missing in (
                ("git, missing is bad", 1),
                ("git, missing is skipped", 125),
            ):
                theirs = with_git(Path(scratch, f"{name}-{missing}"), small, missing)
                answers = f"{'right' if mine.right else 'WRONG'}, git {'right' if theirs.right else 'wrong'}"
                yield Ratio(
                    f"{len(MIXED) - 1} commits, {name} subjects ({answers})",
                    mine.built,
                    peer,
                    theirs.built,
                    "builds",
                )


if __name__ == "__main__":
    for ratio in ratios():
        print(ratio, flush=True)
