"""The question that every reducer is asked in `benchmarks/reduce.py`: does a candidate still show the original's failure?

Run: `python -m benchmarks.reduce_oracle PLAN CANDIDATE`. Exit 0: the bad toolchain fails on it with the same signature, and
the good one, where the plan has one, compiles it. The folder of the plan gets a line in `calls` for each question (`call`) and
each compile (`bad`, `good`), and in `kept/` each candidate that was interesting, named by its size. It is asked thousands of
times: compiles run in triage's sandbox and are judged by its classifier, and nothing else of triage is imported.
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
    """bad, good: command lines with INPUT and OUTPUT for the two paths; signature: of the failure to keep; naming: whether
    the run prints which pass fails, as for crashes; timeout: seconds for one compile.
    """

    bad: list[str]
    good: list[str] | None
    env: dict[str, str]
    signature: str
    naming: bool
    timeout: float
    memory: int

    def write(self, folder: Path) -> Path:
        """The plan as a file of a new folder."""
        (folder / "kept").mkdir(parents=True)
        (folder / "calls").touch()
        path = folder / "plan.json"
        path.write_text(json.dumps(self.__dict__))
        return path


def interesting(plan: Plan, folder: Path, candidate: Path) -> bool:
    """Whether the failure is the same one, and a failure of the bad toolchain alone."""
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
