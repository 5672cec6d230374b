"""Run the program and read its JSON answer, for the tests on released compilers."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Triage


def json_answer(triage: Triage, *words: object, code: int = 0) -> Any:
    """Return the JSON that a command prints. code: the exit code that is expected."""
    done = triage(*words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)
