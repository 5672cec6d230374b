"""The interestingness test of all reducers in `benchmarks/reduce.py`: does a candidate still show the original's failure?

Run `python -m benchmarks.reduce_oracle PLAN CANDIDATE`. Exit 0 means that the bad toolchain fails with the same signature and
the good one, if the plan has one, compiles the candidate. The plan's folder gets a line in `calls` for each question (`call`)
and each compile (`bad`, `good`), and in `kept/` each interesting candidate, named by its size. Thousands of candidates are
tested, so that little of triage is imported.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.classify import packaged_rules
from triage.classify.diagnose import diagnose
from triage.classify.passes import PassScanner
from triage.execution.process import run
from triage.model.execution import Limits


@dataclass(frozen=True)
class Plan:
    """How to test a candidate.

    bad, good: command lines with INPUT and OUTPUT for the two paths. signature: the failure to keep. naming: whether the run
    prints the failing pass, as for crashes. timeout: seconds for one compile.
    """

    bad: list[str]
    good: list[str] | None
    env: dict[str, str]
    signature: str
    naming: bool
    timeout: float
    memory: int

    def write(self, folder: Path) -> Path:
        """Write the plan to a file in a new folder."""
        (folder / "kept").mkdir(parents=True)
        (folder / "calls").touch()
        path = folder / "plan.json"
        path.write_text(json.dumps(self.__dict__))
        return path


def interesting(plan: Plan, folder: Path, candidate: Path) -> bool:
    """Return whether the bad toolchain fails in the same way and the good one compiles."""
    scanner = PassScanner() if plan.naming else None
    limits = Limits(plan.timeout, plan.memory)
    with TemporaryDirectory() as place:
        names = {"INPUT": str(candidate.absolute()), "OUTPUT": str(Path(place, "out"))}

        def words(argv: list[str]) -> list[str]:
            return [names.get(word, word) for word in argv]

        _count(folder, "bad")
        feed = scanner.feed if scanner else None
        failed = run(words(plan.bad), limits, Path(place), env=plan.env, on_stderr=feed)
        if failed.ok:
            return False
        failures = diagnose(failed, packaged_rules(), scanner.finish() if scanner else None).failures
        if not failures or failures[0].signature != plan.signature:
            return False
        if plan.good is None:
            return True
        _count(folder, "good")
        return run(words(plan.good), limits, Path(place), env=plan.env).ok


def _count(folder: Path, what: str) -> None:
    with (folder / "calls").open("a") as log:
        log.write(f"{what}\n")


def main() -> None:
    path, candidate = Path(sys.argv[1]), Path(sys.argv[2])
    folder = path.parent
    _count(folder, "call")
    if not interesting(Plan(**json.loads(path.read_text())), folder, candidate):
        sys.exit(1)
    content = candidate.read_bytes()
    draft = folder / f"draft-{os.getpid()}"
    draft.write_bytes(content)
    draft.replace(folder / "kept" / f"{len(content):012}")


if __name__ == "__main__":
    main()
