"""Run compiled programs on this machine with the benchmark tool of the runtime package."""

from __future__ import annotations

import json
import re
from pathlib import Path

from triage.model.case import Case

_PROGRAM = "iree/_runtime_libs/iree-benchmark-module"
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_ARGUMENT = re.compile(r"tensor<((?:\d+x)*(?:[if]\d+|bf16))>|([if]\d+)")
REPETITIONS = 5


class IreeRunner:
    """The runtime of the IREE family."""

    distribution = "iree-base-runtime"

    def runs(self, case: Case) -> bool:
        return case.target.backend == "llvm-cpu" and case.target.devices in (None, 1)

    def program(self, root: Path) -> Path | None:
        program = root / _PROGRAM
        return program if program.is_file() else None

    def argv(self, program: Path, module: Path, function: str, types: tuple[str, ...]) -> list[str] | None:
        matches = [_ARGUMENT.fullmatch(text) for text in types]
        inputs = [f"--input={match[1]}" if match[1] else f"--input={match[2]}=0" for match in matches if match]
        if len(inputs) < len(types):
            return None
        measuring = [f"--benchmark_repetitions={REPETITIONS}", "--benchmark_min_time=0.2s", "--benchmark_format=json"]
        return [str(program), f"--module={module}", "--device=local-task", f"--function={function}", *inputs, *measuring]

    def seconds(self, output: str) -> list[float]:
        begin = output.find("{")
        try:
            report = json.loads(output[begin:]) if begin >= 0 else {}
        except ValueError:
            return []
        runs = [run for run in report.get("benchmarks", []) if run.get("run_type") == "iteration"]
        return [run["real_time"] / _PER_SECOND[run["time_unit"]] for run in runs]
