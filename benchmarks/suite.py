"""Run a suite of iree-org/iree-test-suites with its own pytest harness, with `triage
run` and with the native binaries.

Run: `python -m benchmarks.suite SUITE --suite-config FILE [--toolchain VERSION]`, where
SUITE is a folder such as `onnx_ops` of a clone of iree-org/iree-test-suites and FILE
one of IREE's config files for it. All three compile and run the same tests with the
same compiler and runtime, as many at once as there are cores. The suite is copied,
because the harness writes into it.

The native binaries run under `xargs -P`, one compile and one run a test; nothing that
uses them can take less CPU time. They and triage take turns on blocks of tests, so that
a busy machine slows both alike. Exit code 1 means that a status differs from the
harness or a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import LINES, TOOLCHAINS, TRIAGE, cost_of, new_home

# goals: CPU time next to the native binaries, CPU seconds of a repetition
RATIO, WARM = 1.05, 1.5
# the file with inputs and expected results in the folder of each test
VALUES = "run_module_io_flags.txt"
# A pytest plugin that writes how each test ended into the file BENCH_RESULTS.
PLUGIN = """
import json, os, pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        error, where = str(call.excinfo.value) if call.excinfo else "", ""
        if "Run with:" in error:
            where = " (wrong result)" if "[FAILED] result" in error else " (run)"
        elif call.excinfo:
            where = " (compile)"
        failed = "failed" + where if call.excinfo else "xpass"
        status = {"passed": "passed", "skipped": "xfail" + where}.get(report.outcome, failed)
        test = dict(item.user_properties)["relative_test_directory_name"]
        with open(os.environ["BENCH_RESULTS"], "a") as file:
            print(json.dumps([test, status]), file=file)
    return report
"""


def status(result: dict[str, object]) -> str:
    """Return the status of a result of `triage run` in the words of the harness: how it
    ended, and where it failed.
    """
    failure = result["failure"]
    if not isinstance(failure, dict):
        return str(result["status"])
    kind = "wrong result" if failure["class"] == "wrong-result" else failure["stage"]
    return f"{result['status']} ({'run' if kind == 'compare' else kind})"


def with_harness(
    suite: Path, config: Path, programs: list[Path], folder: Path, jobs: int
) -> tuple[float, dict[str, str]]:
    """Run the suite's own harness with the native binaries; return its CPU seconds and
    the status of each test.
    """
    uv, venv, binaries = (
        [sys.executable, "-m", "uv", "--quiet"],
        folder / "venv",
        folder / "bin",
    )
    subprocess.run([*uv, "venv", "--python", sys.executable, str(venv)], check=True)
    python = str(venv / "bin" / "python")
    subprocess.run(
        [
            *uv,
            "pip",
            "install",
            "--python",
            python,
            "-r",
            str(suite / "requirements.txt"),
        ],
        check=True,
    )
    binaries.mkdir()
    for program in programs:
        (binaries / program.name).symlink_to(program)
    (folder / "bench_plugin.py").write_text(PLUGIN)
    results = folder / "harness.jsonl"
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(folder),
        "BENCH_RESULTS": str(results),
    }
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "bench_plugin",
        "-n",
        str(jobs),
        "--no-header",
        "--tb=no",
        ".",
    ]
    cost = cost_of(
        [*command, "--config-files", str(config)], cwd=suite, env=env, codes=(0, 1)
    )
    return cost.cpu, dict(json.loads(line) for line in results.read_text().splitlines())


def main() -> int:
    """Measure, compare, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", type=Path)
    parser.add_argument("--suite-config", type=Path, required=True)
    parser.add_argument("--toolchain", default="3.11.0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--every", type=int, default=1, help="Run every N-th test only."
    )
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument(
        "--no-harness", action="store_true", help="Measure without comparing statuses."
    )
    options = parser.parse_args()
    config = options.suite_config.absolute()
    run_flags = shlex.join(
        json.loads(config.read_text()).get("iree_run_module_flags", [])
    )
    with TemporaryDirectory(prefix="bench-suite-") as place:
        folder = Path(place)
        suite = folder / "suite"
        shutil.copytree(options.suite, suite)
        env = new_home(folder / "home")
        words = ["--suite-config", str(config), "-t", options.toolchain]
        listed = [*LINES, str(suite), options.toolchain, str(config)]
        lines = cost_of(listed, env=env).stdout.splitlines()
        tests: dict[str, str] = {}
        for line in lines[:: options.every]:
            [source] = [
                word for word in shlex.split(line) if word.startswith(str(suite))
            ]
            tests[str(Path(source).parent)] = line
        json_words = [*words, "--format", "json", "--jobs", str(options.jobs)]
        # The toolchain and its runtime are installed and asked what they can do, once.
        cost_of(
            [*TRIAGE, "run", next(iter(tests)), *json_words],
            cwd=folder,
            env=env,
            codes=(0, 1),
        )
        [compiler] = [
            word for word in shlex.split(lines[0]) if word.endswith("/iree-compile")
        ]
        runtime = next(
            TOOLCHAINS.glob(
                f"iree-base-runtime-{options.toolchain}-*/iree/_runtime_libs/iree-run-module"
            )
        )
        native = ours = 0.0
        statuses: dict[str, str] = {}
        for number in range(options.blocks):
            block = list(tests)[number :: options.blocks]
            script = folder / "lines"
            with script.open("w") as file:
                for index, test in enumerate(block):
                    target = folder / f"{index}.vmfb"
                    compiled = tests[test].replace(f"-o {os.devnull}", f"-o {target}")
                    run = f"{runtime} --module={target} {run_flags} --flagfile={VALUES}"
                    print(
                        f"cd {test} && {compiled} && {run}; rm -f {target}", file=file
                    )
            xargs = [
                "xargs",
                "-P",
                str(options.jobs),
                "-d",
                "\n",
                "-a",
                str(script),
                "-I",
                "{}",
            ]
            native += cost_of(
                [*xargs, "sh", "-c", "{} >/dev/null 2>&1"], cwd=folder, codes=(0, 123)
            ).cpu
            done = cost_of(
                [*TRIAGE, "run", *block, *json_words], cwd=folder, env=env, codes=(0, 1)
            )
            ours += done.cpu
            statuses |= {
                str(result["case"]): status(result)
                for result in json.loads(done.stdout)["results"]
            }
        warm = cost_of(
            [*TRIAGE, "run", *tests, *json_words], cwd=folder, env=env, codes=(0, 1)
        ).cpu
        different = {}
        if not options.no_harness:
            harness, expected = with_harness(
                suite, config, [Path(compiler), runtime], folder, options.jobs
            )
            different = {
                test: (expected.get(test), own)
                for test, own in statuses.items()
                if expected.get(test) != own
            }
            print(
                f"harness: {harness:.1f} s of CPU time for all tests; {len(different)} statuses differ"
            )
    for test, (theirs, own) in different.items():
        print(f"  {test}: harness {theirs}, triage {own}")
    for name, count in sorted(Counter(statuses.values()).items()):
        print(f"  {count:5} {name}")
    print(
        f"triage {ours:.1f} s of CPU time, native binaries {native:.1f} s, ratio {ours / native:.3f}; again {warm:.1f} s"
    )
    return int(bool(different) or ours / native > RATIO or warm > WARM)


if __name__ == "__main__":
    sys.exit(main())
