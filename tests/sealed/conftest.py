from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.conftest import attack, bystander, victim  # noqa: F401
from tests.workshop import workshop  # noqa: F401
from triage.compilers.registry import load_cases
from triage.execution.engine import open_engine
from triage.execution.task import Prepared
from triage.processes import sealing

needs_seal = pytest.mark.skipif(
    not sealing.can_seal(), reason="this system cannot seal"
)


def generated_input(recipe: Path) -> Path:
    """Return the program that a generator makes for a recipe. No toolchain is needed."""
    [case] = load_cases([recipe])
    with open_engine([case]) as engine:
        prepared = engine.inputs.input_of(case, None)  # type: ignore[arg-type]
    assert isinstance(prepared, Prepared), prepared
    return prepared.path
