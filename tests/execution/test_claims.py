"""Claims of several processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from triage.execution.claims import Claims
from triage.model.errors import Interrupted

HOLDER = """
import sys, threading
from pathlib import Path
from triage.execution.claims import Claims
with Claims(Path(sys.argv[1]), threading.Event()).claim("key"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    file, stop = tmp_path / "home" / "claims.lock", threading.Event()
    command = [sys.executable, "-c", HOLDER, str(file)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    stop.set()
    claims = Claims(file, stop)
    with pytest.raises(Interrupted), claims.claim("key"):
        pass
    with claims.claim("another key"):
        pass
    holder.kill()
    holder.communicate()
    with claims.claim("key"):
        pass
    assert file.stat().st_size == 0
