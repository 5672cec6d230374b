"""Run compiled programs on this machine with the tools of the runtime package."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from triage.compilers.iree.adapter import is_script
from triage.compilers.parts import Runner
from triage.compilers.values import result_ending
from triage.model.case import Case, RunSpec
from triage.model.outcome import Cause, Untestable

# The first is that of a wheel, the last the same folder as seen from the compiler next to it.
_TOOLS = ("iree/_runtime_libs", "tools", "install/bin", "bin", ".", "../../_runtime_libs")
_DEVICES = {
    "llvm-cpu": "local-sync",
    "vmvx": "local-sync",
    "vmvx-inline": "local-sync",
    "cuda": "cuda",
    "rocm": "hip",
    "vulkan-spirv": "vulkan",
    "metal-spirv": "metal",
}
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_NO_DEVICE = re.compile(r"(?:UNAVAILABLE|NOT_FOUND); (?P<reason>[^;\n]+)[^\0]*creating driver for device '(?P<device>[^']+)'")
_UNKNOWN_FLAG = re.compile(r"flag '([\w-]+)' not recognized")
_EXECUTABLE = re.compile(r"\bhal\.executable (?:public |private )?@([\w$.-]+)")
_DISPATCH = re.compile(r'\butil\.func public @([\w$.-]+)\(%\w+: i32\)[^{]*\{[^\n]*iree\.benchmark = "dispatch"')
_RESULT = re.compile(r"^result\[\d+\]: (?:hal\.buffer_view\n(?P<raw>(?:\d+x)*bf16)=)?", re.MULTILINE)
_COMPARES_NAN = Version("3.12.0.dev0")
_SECONDS = 0.1  # of each measurement; short functions are called again and again for as long


class IreeRunner(Runner):
    """The runtime of the IREE family."""

    distribution = "iree-base-runtime"
    unoptimised = ("--iree-opt-level=O0",)

    def program(self, root: Path, *, measured: bool) -> Path | None:
        # The scripts in a virtual environment's bin/ stay the same when its runtime is replaced.
        name = "iree-benchmark-module" if measured else "iree-run-module"
        files = (path for folder in _TOOLS if (path := root / folder / name).is_file())
        return next((path for path in files if not is_script(path)), None)

    def benchmark_argv(self, program: Path, module: Path, case: Case, run: RunSpec, repetitions: int) -> list[str]:
        argv = self.argv(program, module, self.options(case, run), inputs=run.inputs, measured=True)
        return [*argv, f"--benchmark_repetitions={repetitions}", f"--benchmark_min_time={_SECONDS}s"]

    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        clock = "cpu_time" if cpu else "real_time"
        begin = output.find("{")
        try:
            report = json.loads(output[begin:]) if begin >= 0 else {}
            runs = [run for run in report.get("benchmarks", []) if run.get("run_type") == "iteration"]
            return [run[clock] / _PER_SECOND[run["time_unit"]] for run in runs]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError):  # not its usual report
            return []

    def counting(self, file: Path) -> list[str]:
        return ["--iree-scheduling-dump-statistics-format=json", f"--iree-scheduling-dump-statistics-file={file}"]

    def dispatches(self, text: str) -> int | None:
        try:
            return int(json.loads(text)["stream-aggregate"]["execution"]["dispatch-count"])
        except (ValueError, RecursionError, LookupError, TypeError, OverflowError):  # not its usual report
            return None

    def extracting(self, folder: Path) -> list[str]:
        return [f"--iree-hal-dump-executable-benchmarks-to={folder}"]

    def extracted(self, text: str) -> list[tuple[str, str]]:
        executable = _EXECUTABLE.search(text)
        name = executable[1] if executable else "dispatch"
        functions = enumerate(_DISPATCH.findall(text), 1)
        return [(name if number == 1 else f"{name}-{number}", f"--benchmark_filter=^BM_{each}/") for number, each in functions]

    def device(self, case: Case, run: RunSpec) -> str | None:
        name = (run.device or _DEVICES.get(case.target.backend, "local-sync")).partition(":")[0]
        return None if name.startswith("local") else name

    def options(self, case: Case, run: RunSpec) -> list[str]:
        function = [f"--function={run.function}"] if run.function else []
        device = run.device or _DEVICES.get(case.target.backend, "local-sync")
        # Devices that the flags name replace the usual one.
        devices = [] if any(flag.startswith("--device=") for flag in run.flags) else [f"--device={device}"]
        limits = [
            f"--expected_{'rtol' if name == 'relative' else f'{name}_threshold'}={value:g}" for name, value in run.tolerances
        ]
        parameters = [f"--parameters={scope}={path}" if scope else f"--parameters={path}" for scope, path in run.parameters]
        return [*devices, *function, *run.flags, *limits, *parameters]

    def overlooks_nan(self, version: str | None) -> bool:
        return version is not None and Version(version) < _COMPARES_NAN

    def argv(
        self,
        program: Path,
        module: Path,
        options: Sequence[str],
        *,
        libraries: Sequence[Path] = (),
        inputs: Sequence[str] = (),
        expected: Sequence[str] = (),
        results: Sequence[Path] = (),
        measured: bool = False,
    ) -> list[str]:
        argv = [str(program), *(f"--module={path}" for path in (module, *libraries)), *options]
        argv += [*(f"--input={text}" for text in inputs), *(f"--expected_output={text}" for text in expected)]
        argv += [f"--output=@{file}" for file in results]
        return [*argv, "--benchmark_format=json"] if measured else argv

    def unusable(self, stderr: str) -> Untestable | None:
        if match := _NO_DEVICE.search(stderr):
            return Untestable(Cause.TARGET, f"this machine has no device {match['device']}: {match['reason'].strip(' :')}")
        if match := _UNKNOWN_FLAG.search(stderr):
            return Untestable(Cause.FLAG, f"does not know the flag --{match[1]} to run a program")
        return None

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        endings = (result_ending(match["raw"]) for match in _RESULT.finditer(stdout))
        return [folder / f"{index}{ending}" for index, ending in enumerate(endings)]
