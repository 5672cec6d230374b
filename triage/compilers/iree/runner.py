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
        found = root / _PROGRAM
        return found if found.is_file() else None

    def argv(self, program: Path, module: Path, function: str, types: tuple[str, ...]) -> list[str] | None:
        found = [_ARGUMENT.fullmatch(text) for text in types]
        given = [f"--input={one[1]}" if one[1] else f"--input={one[2]}=0" for one in found if one]
        if len(given) < len(types):
            return None
        many = [f"--benchmark_repetitions={REPETITIONS}", "--benchmark_min_time=0.2s", "--benchmark_format=json"]
        return [str(program), f"--module={module}", "--device=local-task", f"--function={function}", *given, *many]

    def seconds(self, said: str) -> list[float]:
        begin = said.find("{")
        try:
            told = json.loads(said[begin:]) if begin >= 0 else {}
        except ValueError:
            return []
        runs = [one for one in told.get("benchmarks", []) if one.get("run_type") == "iteration"]
        return [one["real_time"] / _PER_SECOND[one["time_unit"]] for one in runs]
