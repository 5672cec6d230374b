"""Run compiled programs on this machine with the tools of the runtime package."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from triage.compilers.interpreters import is_script
from triage.compilers.invocation import Runner
from triage.compilers.iree.targets import driver_of
from triage.model.case import Case, RunSpec
from triage.model.outcome import Cause, NoAnswer
from triage.recipes.run_values import ValueText

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
# Types whose numbers the runtime's programs cannot read in a command line.
_ONLY_IN_FILES = ("i1", "cf64", "cf128")


class IreeRunner(Runner):
    """The runtime: `iree-run-module` and `iree-benchmark-module`."""

    distribution = "iree-base-runtime"
    measures = True
    unoptimised = ("--iree-opt-level=O0",)

    @cache  # noqa: B019 - there is one runner
    def program(self, root: Path, *, measured: bool) -> Path | None:
        name = "iree-run-module"
        if measured:
            name = "iree-benchmark-module"
        for path in (root / folder / name for folder in _TOOLS):
            # The scripts in a virtual environment's bin/ stay the same when its runtime
            # is replaced.
            if path.is_file() and not is_script(path):
                return path
        return None

    def device(self, case: Case, run: RunSpec) -> str | None:
        name = _device_name(case, run).partition(":")[0]
        if name.startswith("local"):
            return None
        return name

    def options(self, case: Case, run: RunSpec) -> list[str]:
        options: list[str] = []
        # Devices that the flags name replace the usual one.
        if not any(flag.startswith("--device=") for flag in run.flags):
            options.append(f"--device={_device_name(case, run)}")
        if run.function:
            options.append(f"--function={run.function}")
        options += run.flags
        for scope, path in run.parameters:
            named = filter(None, (scope, str(path)))
            options.append(f"--parameters={'='.join(named)}")
        return options

    def can_read(self, value: ValueText) -> bool:
        return value.file is not None or value.element not in _ONLY_IN_FILES

    def startup_failure(self, stderr: str) -> NoAnswer | None:
        match = _NO_DEVICE.search(stderr)
        if match:
            reason = match["reason"].strip(" :")
            text = f"this machine has no device {match['device']}: {reason}"
            return NoAnswer(Cause.TARGET, text)
        match = _UNKNOWN_FLAG.search(stderr)
        if match:
            text = f"does not know the flag --{match[1]} to run a program"
            return NoAnswer(Cause.FLAG, text)
        return None


class IreeKernels:
    """The kernels of a program, as the compiler's own options show them."""

    def count_options(self, file: Path) -> list[str]:
        """Return options that make the compiler write statistics to a file, for
        `kernel_count`.
        """
        return [
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={file}",
        ]

    def kernel_count(self, text: str) -> int | None:
        """Return how many kernels the program starts, by the text of its statistics."""
        try:
            report = json.loads(text)
            return int(report["stream-aggregate"]["execution"]["dispatch-count"])
        # not its usual report
        except (ValueError, RecursionError, LookupError, TypeError, OverflowError):
            return None

    def extract_options(self, folder: Path) -> list[str]:
        """Return options that make the compiler write small programs to a folder. Each
        starts one kernel of the compiled program.
        """
        return [f"--iree-hal-dump-executable-benchmarks-to={folder}"]

    def kernels_in(self, text: str) -> list[tuple[str, str]]:
        """Return the kernels that a small program starts: name, and the option that
        measures this kernel alone.
        """
        executable = _EXECUTABLE.search(text)
        name = "dispatch"
        if executable:
            name = executable[1]
        functions = enumerate(_DISPATCH.findall(text), 1)
        return [
            (
                name if number == 1 else f"{name}-{number}",
                f"--benchmark_filter=^BM_{function}/",
            )
            for number, function in functions
        ]


def _device_name(case: Case, run: RunSpec) -> str:
    driver = driver_of(case.target.backend)
    if driver == "local":
        driver = "local-sync"
    return run.device or driver
