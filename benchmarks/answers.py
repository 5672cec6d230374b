"""What the first answers cost: `why` of a failure, `suspects` of a log, and a program
whose result is wrong, reduced.

CPU times count all child processes. `why` is asked
a second time; what it still does is to compile the deciding pair again, which it also
confirms when all is known. `suspects` ranks the changes of a history that is written
here. A candidate of a reduction is compiled and run with two releases; the peer compiles
and runs the whole program once with each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.common import TRIAGE, Ratio, cost_of, cpu_of, new_home, show
from tests.git_history.history import ENV

ROOT = Path(__file__).parents[1]
MODEL_CASE = (
    str(ROOT / "recipes/llama-attention-aggressive-fusion.yaml"),
    *("--case", "dtype=f16"),
)
LOG = "model.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n"
FILES = (
    "compiler/src/iree/compiler/Codegen/LLVMGPU/KernelConfig.cpp",
    "compiler/src/iree/compiler/DispatchCreation/CollapseDimensions.cpp",
    "compiler/src/iree/compiler/Dialect/Stream/IR/StreamOps.cpp",
    "compiler/src/iree/compiler/GlobalOptimization/Passes.cpp",
    "runtime/src/iree/hal/drivers/hip/hip_device.c",
)
WRONG = str(ROOT / "recipes/masked-mean.yaml")


def why_ratio() -> Ratio:
    """Ask twice why the model case fails."""
    words = [*TRIAGE, "why", *MODEL_CASE]
    with new_home() as (_, env):
        first = cpu_of(*words, rounds=1, env=env, codes=(0, 1))
        again = cpu_of(*words, rounds=2, env=env, codes=(0, 1))
    return Ratio("why, asked again, CPU time", again, "the first time", first, "s", 0.4)


def write_history(folder: Path, count: int) -> None:
    """Write a repository of so many commits, an hour apart."""
    env = {**ENV, "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True, env=env)
    stream = []
    for number in range(count):
        text = f"// {number}\n"
        subject = f"Change {number}: shared memory"
        stream.append(
            "commit refs/heads/main\n"
            f"committer A <a@example.org> {1_700_000_000 + 3600 * number} +0000\n"
            f"data {len(subject)}\n{subject}\n"
            f"M 644 inline {FILES[number % len(FILES)]}\n"
            f"data {len(text)}\n{text}\n"
        )
    subprocess.run(
        ["git", "-C", folder, "fast-import", "--quiet"],
        input="".join(stream).encode(),
        check=True,
        env=env,
    )


def suspects_ratio(commits: int = 600, older: int = 15_000) -> Ratio:
    """Rank the last commits of a history, next to reading them with git."""
    good = f"main~{commits}"
    with new_home() as (place, env):
        clone, log = place / "repo", place / "error.log"
        write_history(clone, commits + older)
        log.write_text(LOG)
        ends = ("--good", good, "--bad", "main")
        ours = cpu_of(*TRIAGE, "suspects", log, "--repo", clone, *ends, env=env)
        peer = cpu_of("git", "log", "--name-only", f"{good}..main", cwd=clone)
    return Ratio(
        f"suspects among {commits} commits, CPU time", ours, "git log", peer, "s", 150
    )


def wrong_result_ratio() -> Ratio:
    """Reduce a wrong result, next to the compiler and the runtime on their own."""
    with new_home() as (place, env):
        ends = ("-t", "3.12.0", "--good", "3.13.0")
        direct = _cost_on_two_releases(env)
        words = [
            *TRIAGE,
            "reduce",
            WRONG,
            *ends,
            "--out",
            str(place),
            "--format",
            "json",
        ]
        cost = cost_of(words, env=env)
        calls = json.loads(cost.stdout)["oracle_calls"]
    return Ratio(
        f"wrong result reduced in {calls} candidates, CPU time each",
        cost.cpu / calls,
        "compile and run once",
        direct,
        "s",
        1.5,
    )


def _cost_on_two_releases(env: Mapping[str, str]) -> float:
    """Return the CPU seconds in which the whole program is compiled and run with two
    releases, without those of the start and of preparing the input.
    """

    def run(version: str) -> float:
        words = [*TRIAGE, "run", WRONG, "--toolchain", version]
        return cpu_of(*words, rounds=1, env=env, codes=(0, 1))

    run("3.11.0")
    return sum(run(version) - run(version) for version in ("3.12.0", "3.13.0"))


def ratios() -> Iterator[Ratio]:
    """Yield all figures."""
    yield suspects_ratio()
    yield why_ratio()
    yield wrong_result_ratio()


if __name__ == "__main__":
    sys.exit(show(ratios()))
