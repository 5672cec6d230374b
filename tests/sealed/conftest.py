from __future__ import annotations

import pytest

from tests.processes.conftest import attack, bystander, victim  # noqa: F401
from tests.workshop import workshop  # noqa: F401
from triage.processes import sealing

needs_seal = pytest.mark.skipif(
    not sealing.can_seal(), reason="this system cannot seal"
)
