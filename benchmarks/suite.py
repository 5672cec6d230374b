"""Run a suite of iree-org/iree-test-suites with its own pytest harness, with `triage run` and with the native binaries.

Run `python -m benchmarks.suite SUITE --suite-config FILE [--toolchain REV]`, where SUITE is a folder such as `onnx_ops` of a
clone of iree-org/iree-test-suites and FILE one of IREE's config files for it. All three compile and run the same tests with
the same compiler and runtime, as many at once as there are cores. The suite is copied, because the harness writes into it.

The native binaries run under `xargs -P`, one compile and one run a test; nothing that uses them can take less CPU time. They
and `triage` take turns on blocks of tests, so that a busy machine slows both alike. The harness finds the same binaries on the
PATH; with the entry scripts of the wheels it takes 0.6 s of CPU time more a test. Exits with 1 when a status differs from the
harness or a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.cli.context import load_cases, open_runner
from triage.cli.screen import AppContext
from triage.compilers.iree.suite import VALUES
from triage.model.case import Case
from triage.toolchains.home import home_path

RATIO, WARM, MEMORY = 1.05, 2.0, 300  # goals: CPU time beside the native binaries, CPU seconds of a repetition, MiB
_RUNTIME = "iree-base-runtime"
# Writes the CPU seconds of the program itself, those of its processes, and its largest memory in MiB.
_TRIAGE = """
import atexit, json, os, resource, sys
def write():
    used = os.times()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with open(os.environ["BENCH_USAGE"], "a") as file:
        print(json.dumps([used.user + used.system, used.children_user + used.children_system, peak]), file=file)
atexit.register(write)
from triage.cli import main
main()
"""


@dataclass
class Cost:
    """What a way to run the tests costs. own: CPU seconds outside compilers and programs, where they are known."""

    wall: float = 0.0
    cpu: float = 0.0
    own: float | None = None
    peak_mb: float | None = None

    def add(self, command: Sequence[str], cwd: Path, env: dict[str, str]) -> str:
        """Run a command, add what it costs, and return what it prints."""
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall += time.monotonic() - started
        self.cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode not in (0, 1, 123):  # the codes of failed tests; 123 of xargs
            sys.exit(
                f"{shlex.join(command[:4])} ended with exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout

    def __str__(self) -> str:
        own = "" if self.own is None else f"{self.own:8.1f}"
        return f"{self.wall:8.1f} {self.cpu:8.1f} {own:>8} {'' if self.peak_mb is None else f'{self.peak_mb:8.0f}'}"


@dataclass(frozen=True)
class Native:
    """The folders of the compiler and of its runtime."""

    compiler: Path
    runtime: Path

    @property
    def programs(self) -> tuple[Path, Path]:
        """The compiler, and the program that runs what it wrote."""
        compiler = self.compiler / "iree/compiler/_mlir_libs/iree-compile"
        return compiler, self.runtime / "iree/_runtime_libs/iree-run-module"

    def line(self, suite: Path, case: Case, target: Path) -> str:
        """Return the shell line that compiles and runs a test."""
        assert case.input.path.is_relative_to(suite)
        compiler, runner = self.programs
        flags = shlex.join(flag.text for flag in case.flags)
        compiled = f"{compiler} {case.input.path.name} {flags} -o {target}"
        if case.run is None:
            return f"cd {case.input.path.parent} && {compiled}"
        options = shlex.join(flag for flag in case.run.flags)
        run = f"{runner} --module={target} {options} --flagfile={VALUES}"
        return f"cd {case.input.path.parent} && {compiled} && {run}; rm -f {target}"


def toolchain(rev: str, case: Case) -> tuple[Native, str]:
    """Install a release with its runtime, and return their folders and its version."""
    with open_runner(AppContext(quiet=True), [case]) as runner:
        ref = runner.registry.resolve(rev, case.compiler)
        compiler = runner.registry.obtain(ref)
        return Native(compiler.root, runner.registry.runtime(compiler, _RUNTIME)), ref.revision.name


def new_home(folder: Path) -> Path:
    """Make a TRIAGE_HOME with the user's toolchains and nothing else."""
    folder.mkdir()
    for name in ("toolchains", "state.db"):
        (folder / name).symlink_to(home_path() / name)
    return folder


def status(result: dict[str, object]) -> str:
    """Return the status of a result of `triage run` in the words of the harness: how it ended, and where it failed."""
    failure = result["failure"]
    if not isinstance(failure, dict):
        return str(result["status"])
    kind = "wrong result" if failure["class"] == "wrong-result" else failure["stage"]
    return f"{result['status']} ({'run' if kind == 'compare' else kind})"


def with_harness(cost: Cost, suite: Path, config: Path, native: Native, folder: Path, jobs: int) -> dict[str, str]:
    """Run the suite's own harness with the native binaries, and return its status of each test."""
    uv, venv, binaries = str(Path(sys.executable).with_name("uv")), folder / "venv", folder / "bin"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin/python"), "-r", str(suite / "requirements.txt")]
    subprocess.run(install, check=True)
    binaries.mkdir()
    for program in native.programs:
        (binaries / program.name).symlink_to(program)
    plugin, results = Path(__file__).with_name("suite_plugin.py"), folder / "harness.jsonl"
    shutil.copy(plugin, folder)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), "BENCH_RESULTS": str(results)}
    command = [str(venv / "bin/python"), "-m", "pytest", "-q", "-p", plugin.stem, "-n", str(jobs), "--no-header", "--tb=no"]
    cost.add([*command, ".", "--config-files", str(config.absolute())], suite, env)
    lines = (json.loads(line) for line in results.read_text().splitlines())
    return {line["test"]: line["status"] for line in lines}


def blocks(cases: Sequence[Case], count: int) -> list[Sequence[Case]]:
    return [cases[index::count] for index in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--suite-config", type=Path, required=True)
    parser.add_argument("--toolchain", default="3.11.0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--no-harness", action="store_true", help="Measure without comparing statuses.")
    options = parser.parse_args()
    native, ours, warm, harness = Cost(), Cost(own=0.0, peak_mb=0.0), Cost(own=0.0, peak_mb=0.0), Cost()
    with TemporaryDirectory(prefix="bench-suite-") as place:
        folder = Path(place)
        suite = folder / "suite"
        shutil.copytree(options.suite, suite)
        cases = load_cases([suite], [options.suite_config])
        binaries, version = toolchain(options.toolchain, cases[0])
        usage, home = folder / "usage", new_home(folder / "home")
        env = {**os.environ, "TRIAGE_HOME": str(home), "BENCH_USAGE": str(usage)}
        run = [sys.executable, "-c", _TRIAGE, "--quiet", "run"]
        words = ["--suite-config", str(options.suite_config.absolute()), "-t", options.toolchain]
        words += ["-f", "json", "--jobs", str(options.jobs)]
        subprocess.run(  # the toolchain is asked what it can do, once
            [*run, str(cases[0].input.path.parent), *words], cwd=folder, env=env, capture_output=True, check=False
        )

        def measured(cost: Cost, tests: Sequence[str]) -> list[dict[str, object]]:
            usage.write_text("")
            results: list[dict[str, object]] = json.loads(cost.add([*run, *tests, *words], folder, env))["results"]
            own, _, peak = json.loads(usage.read_text())
            cost.own, cost.peak_mb = (cost.own or 0.0) + own, max(cost.peak_mb or 0.0, peak)
            return results

        results = []
        for number, block in enumerate(blocks(cases, options.blocks)):
            script = folder / "lines"
            lines = (binaries.line(suite, case, folder / f"{index}.vmfb") for index, case in enumerate(block))
            script.write_text("\n".join(lines))
            command = [
                "xargs",
                "-P",
                str(options.jobs),
                "-d",
                "\n",
                "-a",
                str(script),
                "-I",
                "{}",
                "sh",
                "-c",
                "{} >/dev/null 2>&1",
            ]
            tests = [str(case.input.path.parent) for case in block]
            for turn in (0, 1) if number % 2 else (1, 0):
                if turn:
                    native.add(command, folder, env)
                else:
                    results += measured(ours, tests)
        measured(warm, [str(suite)])
        statuses = {str(result["case"]): status(result) for result in results}
        expected = statuses
        if not options.no_harness:
            expected = with_harness(harness, suite, options.suite_config, binaries, folder, options.jobs)
    different = {test: (expected.get(test, "-"), statuses.get(test, "-")) for test in sorted({*expected, *statuses})}
    different = {test: pair for test, pair in different.items() if pair[0] != pair[1]}
    for test, (theirs, own) in different.items():
        print(f"{test}: harness {theirs}, triage {own}")
    print(f"{len(statuses)} tests on {version}: {len(different)} differ from the harness")
    for name, count in sorted(Counter(statuses.values()).items()):
        print(f"  {count:5} {name}")
    print(f"{'':20} {'wall s':>8} {'CPU s':>8} {'own':>8} {'MiB':>8}")
    rows = {"native binaries": native, "triage": ours, "triage again": warm}
    for name, cost in rows.items() if options.no_harness else {**rows, "harness": harness}.items():
        print(f"{name:20} {cost}")
    ratio = ours.cpu / native.cpu
    print(f"triage / native: {ratio:.3f} of CPU time, {ours.wall / native.wall:.3f} of wall time")
    print(f"triage itself: {(ours.own or 0.0) / ours.cpu:.3f} of its CPU time")
    return int(bool(different) or ratio > RATIO or warm.cpu > WARM or (ours.peak_mb or 0.0) > MEMORY)


if __name__ == "__main__":
    sys.exit(main())
