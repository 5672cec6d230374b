"""Run compiled programs on this machine's processor with the worker of the environment that compiled them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from triage.compilers.values import TOLERANCES, result_ending
from triage.compilers.xla.adapter import ISOLATED
from triage.model.case import Case, RunSpec
from triage.model.outcome import Untestable

_RESULT = re.compile(r"^result\[\d+\]: ((?:\d+x)*)(\w+)=", re.MULTILINE)


class XlaRunner:
    """The runtime is part of jaxlib. Programs that load others, devices and kernels of their own are not known here."""

    distribution = ""
    """The compiler's own package."""
    unoptimised = ("--xla_backend_optimization_level=0",)
    """Flags of the compiler that switch the optimisations of LLVM off."""

    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the interpreter of an installation."""
        return next((path for path in (root / "bin" / "python", root / "python") if path.is_file()), None)

    def device(self, case: Case, run: RunSpec) -> str | None:
        """Return nothing: programs run on the processor."""
        return None

    def options(self, case: Case, run: RunSpec) -> list[str]:
        """Return the options that decide what a run does, without its values."""
        return [f"--tolerances={json.dumps({**TOLERANCES, **dict(run.tolerances)})}", *run.flags]

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
        """Return the command that runs a compiled file; see `IreeRunner.argv`."""
        argv = [str(program), *ISOLATED, "run", *options]
        argv += [*(f"--input={text}" for text in inputs), *(f"--expected_output={text}" for text in expected)]
        return [*argv, *(f"--output=@{file}" for file in results), *(["--measure"] if measured else []), str(module)]

    def benchmark_argv(self, program: Path, module: Path, case: Case, run: RunSpec) -> list[str]:
        """Return the command that measures a compiled file."""
        return self.argv(program, module, self.options(case, run), inputs=run.inputs, measured=True)

    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        """Return wall time (or CPU time) of each repetition that a measuring run printed."""
        try:
            return [sample[cpu] for sample in json.loads(output[output.find("{") :])["seconds"]]
        except (ValueError, LookupError, TypeError):
            return []

    def counting(self, file: Path) -> list[str]:
        """Return no options: XLA starts a program of the processor once."""
        return []

    def dispatches(self, text: str) -> int | None:
        """Return nothing, see `counting`."""
        return None

    def extracting(self, folder: Path) -> list[str]:
        """Return no options: kernels cannot be run alone."""
        return []

    def extracted(self, text: str) -> list[tuple[str, str]]:
        """Return nothing, see `extracting`."""
        return []

    def overlooks_nan(self, version: str | None) -> bool:
        """Return False: the worker compares NaN."""
        return False

    def unusable(self, stderr: str) -> Untestable | None:
        """Return nothing: what compiles can be run."""
        return None

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """Return a file in a folder for each result that a run printed, named as `values.file_value` expects."""
        raw = [
            f"{sizes}{element}" if element.startswith(("bf16", "f8")) else None for sizes, element in _RESULT.findall(stdout)
        ]
        return [folder / f"{index}{result_ending(kind)}" for index, kind in enumerate(raw)]
