"""Which drafts count as failing, and which programs with other failures are saved."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.reduce.test_search import draft
from triage.execution.judge import same_signature
from triage.execution.prober import Naming
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Measured, Outcome, Probe
from triage.model.revision import Revision, Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.interestingness import Oracle

WANTED, OTHER = (Failure(name, name, f"{name}:detail", "detail") for name in ("wanted", "other"))


class FakeProber:
    """The first word of a program is its outcome: `good`, `wanted` or `other`."""

    def trial(self, case: Case, toolchain: Any, naming: Naming, **_: object) -> Probe:
        word = case.input.path.read_text().split()[0]
        outcome: Outcome = Compiled() if word == "good" else Failed(WANTED if word == "wanted" else OTHER)
        return Probe(case, Revision("1"), "1", outcome, Measured(seconds=1.0), cached=False)


def oracle(folder: Path, saved: Path | None = None) -> Oracle:
    bad = Toolchain("iree", Revision("1"), "id", folder, folder, None)  # type: ignore[arg-type]
    drafts = folder / "drafts"
    drafts.mkdir(parents=True)
    start = Baseline(WANTED, same_signature(WANTED), Naming.NEVER, seconds=1.0, repeats=1, probes=())
    return Oracle(FakeProber(), drafts, bad, None, start, other_failures=saved)  # type: ignore[arg-type]


def test_only_the_same_failure_counts_and_others_are_counted(tmp_path: Path) -> None:
    asked = oracle(tmp_path)
    never = threading.Event()
    assert asked.fails(draft(["wanted"]), never)
    assert not asked.fails(draft(["good"]), never)
    assert not asked.fails(draft(["other 1"]), never)
    assert not asked.fails(draft(["other 2"]), never)
    assert asked.other_failures() == [OTHER]
    assert asked.tally.other_failures[OTHER.signature][1] == 2
    assert (asked.tally.calls, asked.tally.seconds) == (4, 4.0)
    assert not list((tmp_path / "drafts").iterdir())


def test_the_smallest_program_of_another_failure_is_saved(tmp_path: Path) -> None:
    kept = tmp_path / "saved"
    kept.mkdir()
    asked = oracle(tmp_path, kept)
    for word in ("other 22", "other 1", "other 333", "wanted"):
        asked.fails(draft([word]), threading.Event())
    [path] = kept.iterdir()
    assert path.name.startswith("other-detail-")
    assert path.read_text() == "other 1\n"
    [(smallest, where)] = asked.saved_failures()
    assert (smallest.document.content, where) == (b"other 1\n", path)
    assert oracle(tmp_path / "kept").saved_failures() == []
