"""How tests read the answer of a command."""

from __future__ import annotations

import json
import subprocess
from typing import Any


def answered(
    done: subprocess.CompletedProcess[str], *, status: int = 0
) -> dict[str, Any]:
    assert done.returncode == status, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
