"""Read by every Python that a test starts: the compilers that tests invent write a log
of what they do, which a seal refuses. Here it lets them write below one folder.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any


def let_fakes_write(sealing: Any, folder: Path) -> None:
    """Let sealed programs write below a folder as well."""
    strictly = sealing._restrict_files

    def restrict(seal: Any, version: int) -> None:
        strictly(replace(seal, writes=(*seal.writes, folder)), version)

    sealing._restrict_files = restrict


if "TRIAGE_TEST_LOGS" in os.environ:
    try:
        from triage.processes import sealing
    except ImportError:  # an interpreter of a toolchain
        pass
    else:
        let_fakes_write(sealing, Path(os.environ["TRIAGE_TEST_LOGS"]))
        if "TRIAGE_TEST_UNSEALED" in os.environ:
            sealing.can_seal = lambda: False
