"""Run compiled programs on this machine's processor with the worker of the environment
that compiled them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from triage.compilers.parts import Runner
from triage.compilers.xla.adapter import ISOLATED
from triage.model.case import Case, RunSpec
from triage.recipes.run_values import TOLERANCES


class XlaRunner(Runner):
    """The runtime is part of jaxlib, and has no devices."""

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

    def options(self, case: Case, run: RunSpec) -> list[str]:
        return [
            f"--tolerances={json.dumps({**TOLERANCES, **dict(run.tolerances)})}",
            *run.flags,
        ]

    def argv(self, *arguments: Any, **values: Any) -> list[str]:
        python, *words = super().argv(*arguments, **values)
        return [python, *ISOLATED, "run", *words]
