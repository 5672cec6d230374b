"""Run compiled programs on this machine's processor with the worker of the environment
that compiled them.

The worker takes the words of IREE's programs and prints what they print, so that only
the differences are here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from triage.compilers.iree.runner import IreeRunner
from triage.compilers.xla.adapter import ISOLATED
from triage.model.case import Case, RunSpec
from triage.recipes.run_values import TOLERANCES, result_ending

_RESULT = re.compile(r"^result\[\d+\]: ((?:\d+x)*)([\w<>]+)=", re.MULTILINE)


class XlaRunner(IreeRunner):
    """The runtime is part of jaxlib. It has no devices, counts no kernels and starts
    none alone.
    """

    distribution = ""  # the compiler's own
    unoptimised = ("--xla_backend_optimization_level=0",)

    def program(self, root: Path, *, measured: bool) -> Path | None:
        return next(
            (
                path
                for path in (root / "bin" / "python", root / "python")
                if path.is_file()
            ),
            None,
        )

    def device(self, case: Case, run: RunSpec) -> str | None:
        return None

    def options(self, case: Case, run: RunSpec) -> list[str]:
        return [
            f"--tolerances={json.dumps({**TOLERANCES, **dict(run.tolerances)})}",
            *run.flags,
        ]

    def argv(self, *arguments: Any, **values: Any) -> list[str]:
        python, *words = super().argv(*arguments, **values)
        return [python, *ISOLATED, "run", *words]

    def counting(self, file: Path) -> list[str]:
        return []

    def extracting(self, folder: Path) -> list[str]:
        return []

    def overlooks_nan(self, version: str | None) -> bool:
        return False

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        raw = [
            f"{sizes}{element}" if element.startswith(("bf16", "f8")) else None
            for sizes, element in _RESULT.findall(stdout)
        ]
        return [
            folder / f"{index}{result_ending(kind)}" for index, kind in enumerate(raw)
        ]
