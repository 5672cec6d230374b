"""Run compiled programs on this machine with the tools of the runtime package."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from triage.model.case import Case, RunSpec
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.run_values import result_ending

# The first is that of a wheel, the last the same folder as seen from the compiler next
# to it.
_TOOLS = (
    "iree/_runtime_libs",
    "tools",
    "install/bin",
    "bin",
    ".",
    "../../_runtime_libs",
)
_DEVICES = {
    "cuda": "cuda",
    "rocm": "hip",
    "vulkan-spirv": "vulkan",
    "metal-spirv": "metal",
}
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_NO_DEVICE = re.compile(
    r"(?:UNAVAILABLE|NOT_FOUND); (?P<reason>[^;\n]+)[^\0]*creating driver for device "
    r"'(?P<device>[^']+)'"
)
_UNKNOWN_FLAG = re.compile(r"flag '([\w-]+)' not recognized")
_EXECUTABLE = re.compile(r"\bhal\.executable (?:public |private )?@([\w$.-]+)")
_DISPATCH = re.compile(
    r"\butil\.func public @([\w$.-]+)\(%\w+: i32\)[^{]*\{[^\n]*iree\.benchmark = "
    r'"dispatch"'
)
_RESULT = re.compile(
    r"^result\[\d+\]: (?:hal\.buffer_view\n(?P<raw>(?:\d+x)*bf16)=)?", re.MULTILINE
)
_COMPARES_NAN = Version("3.12.0.dev0")
# of each measurement; short functions are called again and again for as long
_SECONDS = 0.1


class IreeRunner:
    """The runtime: `iree-run-module` and `iree-benchmark-module`."""

    distribution = "iree-base-runtime"
    """The package, which is released next to the compiler."""
    unoptimised = ("--iree-opt-level=O0",)
    """Flags of the compiler that switch its optimisations off."""

    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the program of an installation that runs a compiled file once, or
        measures it.
        """
        # The scripts in a virtual environment's bin/ stay the same when its runtime is
        # replaced.
        files = (
            root / folder / f"iree-{'benchmark' if measured else 'run'}-module"
            for folder in _TOOLS
        )
        return next(
            (path for path in files if path.is_file() and not is_script(path)), None
        )

    def device(self, case: Case, run: RunSpec) -> str | None:
        """Return the kind of device that a run needs in addition to a processor, such
        as `hip`.
        """
        name = _device(case, run).partition(":")[0]
        if name.startswith("local"):
            return None
        return name

    def options(self, case: Case, run: RunSpec) -> list[str]:
        """Return the options that decide what a run does, without its values."""
        # Devices that the flags name replace the usual one.
        if any(flag.startswith("--device=") for flag in run.flags):
            options = []
        else:
            options = [f"--device={_device(case, run)}"]
        if run.function:
            options += [f"--function={run.function}"]
        options += run.flags
        for name, value in run.tolerances:
            options.append(
                f"--expected_{'rtol' if name == 'relative' else f'{name}_threshold'}="
                f"{value:g}"
            )
        return [
            *options,
            *(
                f"--parameters={f'{scope}=' if scope else ''}{path}"
                for scope, path in run.parameters
            ),
        ]

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
        """Return the command that runs a compiled file.

        Args:
            program: The runtime's program.
            module: The compiled file.
            options: See `options`.
            libraries: Further compiled files to load.
            inputs: The arguments.
            expected: The results to compare with.
            results: Files to write the results to, see `result_files`.
            measured: Whether the program measures, and prints what `seconds` reads.
        """
        argv = [
            str(program),
            *(f"--module={path}" for path in (module, *libraries)),
            *options,
        ]
        argv += [
            *(f"--input={text}" for text in inputs),
            *(f"--expected_output={text}" for text in expected),
        ]
        argv += [f"--output=@{file}" for file in results]
        if measured:
            return [*argv, "--benchmark_format=json"]
        return argv

    def benchmark_argv(
        self, program: Path, module: Path, case: Case, run: RunSpec
    ) -> list[str]:
        """Return the command that measures a function of a compiled file."""
        argv = self.argv(
            program, module, self.options(case, run), inputs=run.inputs, measured=True
        )
        return [*argv, f"--benchmark_min_time={_SECONDS}s"]

    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        """Return wall time (or CPU time) of each repetition, parsed from the output of
        a program that measures.
        """
        if cpu:
            clock = "cpu_time"
        else:
            clock = "real_time"
        report = _json(output[output.find("{") :])
        try:
            runs = [
                run for run in report["benchmarks"] if run["run_type"] == "iteration"
            ]
            return [run[clock] / _PER_SECOND[run["time_unit"]] for run in runs]
        except (LookupError, TypeError, OverflowError):  # not its usual report
            return []

    def counting(self, file: Path) -> list[str]:
        """Return options of the compiler that write to a file how many kernels the
        program starts.
        """
        return [
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={file}",
        ]

    def dispatches(self, text: str) -> int | None:
        """Return the number of kernels in that file."""
        try:
            return int(_json(text)["stream-aggregate"]["execution"]["dispatch-count"])
        # not its usual report
        except (ValueError, LookupError, TypeError, OverflowError):
            return None

    def extracting(self, folder: Path) -> list[str]:
        """Return options of the compiler that write programs to a folder which start
        one kernel each.
        """
        return [f"--iree-hal-dump-executable-benchmarks-to={folder}"]

    def extracted(self, text: str) -> list[tuple[str, str]]:
        """Return the kernels of such a program, each with the option that measures it
        alone.
        """
        executable = _EXECUTABLE.search(text)
        if executable:
            name = executable[1]
        else:
            name = "dispatch"
        functions = enumerate(_DISPATCH.findall(text), 1)
        return [
            (
                name if number == 1 else f"{name}-{number}",
                f"--benchmark_filter=^BM_{each}/",
            )
            for number, each in functions
        ]

    def overlooks_nan(self, version: str | None) -> bool:
        """Return whether the program of this release treats NaN as equal to any
        number.
        """
        return version is not None and Version(version) < _COMPARES_NAN

    def unusable(self, stderr: str) -> NoAnswer | None:
        """Return why the program could not run anything: a missing device, or an option
        that this version does not know.
        """
        match = _NO_DEVICE.search(stderr)
        if match:
            return NoAnswer(
                Cause.TARGET,
                (
                    f"this machine has no device {match['device']}: "
                    f"{match['reason'].strip(' :')}"
                ),
            )
        match = _UNKNOWN_FLAG.search(stderr)
        if match:
            return NoAnswer(
                Cause.FLAG, f"does not know the flag --{match[1]} to run a program"
            )
        return None

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """Return a file in a folder for each result that a run printed, named as
        `values.file_value` expects.
        """
        endings = (result_ending(match["raw"]) for match in _RESULT.finditer(stdout))
        return [folder / f"{index}{ending}" for index, ending in enumerate(endings)]


def is_script(path: Path) -> bool:
    """Return whether a file names the program that runs it in its first line."""
    with path.open("rb") as source:
        return source.read(2) == b"#!"


def _device(case: Case, run: RunSpec) -> str:
    return run.device or _DEVICES.get(case.target.backend, "local-sync")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
