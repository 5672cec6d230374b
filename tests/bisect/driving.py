"""How tests ask for a bisect of commits, and read the answer of a command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def answered(
    done: subprocess.CompletedProcess[str], *, status: int = 0
) -> dict[str, Any]:
    assert done.returncode == status, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def between(clone: Path, good: str, bad: str) -> list[object]:
    """Return the options for a search of the commits between two."""
    return ["--repo", clone, "--good", f"commit:{good}", "--bad", f"commit:{bad}"]
