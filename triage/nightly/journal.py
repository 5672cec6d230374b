"""The journal of a nightly: what starts and ends, as JSON lines that `triage watch` follows, and the logs of failures."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from triage.execution.judge import status_of
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.outcome import Compiled, Failed, Probe
from triage.toolchains.home import disk_errors, write_whole

JOURNAL = "nightly.events.jsonl"
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class NightJournal:
    """Writes the events of a night below a folder. Safe for several threads. An older journal is replaced."""

    def __init__(self, runner: ProbeRunner, out: Path, cases: Collection[str], revisions: tuple[str, str]) -> None:
        """cases: names of the night's cases; revisions: of the toolchain and the baseline."""
        self._runner, self._out = runner, out
        self._cases, self._revisions = frozenset(cases), revisions
        self._logs: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        with disk_errors(f"write the journal to {out}"):
            out.mkdir(parents=True, exist_ok=True)
            draft = out / f".{JOURNAL}.{os.getpid()}"
            self._sink = draft.open("w", encoding="utf-8", buffering=1)
            toolchain, baseline = revisions
            self._write("begin", toolchain=toolchain, baseline=baseline, cases=len(cases), pid=os.getpid())
            draft.replace(out / JOURNAL)  # who follows the older journal sees another file at once

    def phase(self, name: str) -> None:
        """Note that a phase begins."""
        self._write("phase", phase=name)

    def step(self, name: str, case: str) -> None:
        """Note that a step of an investigation begins."""
        self._write("step", step=name, case=case)

    def started(self, job: ProbeJob) -> None:
        """Note that a probe starts."""
        self._write("start", case=job.case.name, revision=job.ref.revision.name)

    def ended(self, job: ProbeJob, probe: Probe) -> None:
        """Note how a probe ended, and write the log of a failure."""
        outcome = probe.outcome
        failure = None if isinstance(outcome, Compiled) else outcome.failure
        reason = None if isinstance(outcome, Compiled | Failed) else outcome.reason
        self._write(
            "end",
            case=job.case.name,
            revision=job.ref.revision.name,
            status=status_of(probe).value,
            failure_class=failure.failure_class if failure else None,
            text=failure.headline if failure else reason,
            seconds=round(probe.measured.seconds, 3),
            cached=probe.cached,
            log=self._log(job, probe),
        )

    def done(self, stopped: str | None = None) -> None:
        """Note the end of the night, and close the journal. stopped: why it ended early."""
        self._write("done", stopped=stopped)
        self._sink.close()

    def log_of(self, case: str, revision: str) -> str | None:
        """Return the path of a log relative to the folder; None where there is none."""
        return self._logs.get((case, revision))

    def _log(self, job: ProbeJob, probe: Probe) -> str | None:
        name, revision = job.case.name, job.ref.revision.name
        if not isinstance(probe.outcome, Failed) or name not in self._cases or revision not in self._revisions:
            return None
        if (name, revision) in self._logs:
            return self._logs[name, revision]
        text = self._runner.prober.output(job.case, self._runner.registry.obtain(job.ref))
        if not text:
            return None
        with self._lock:
            stem = path = f"logs/{_file_name(revision)}/{_file_name(name)}"
            number = 1
            while f"{path}.log" in self._logs.values():
                number += 1
                path = f"{stem}-{number}"
            self._logs[name, revision] = f"{path}.log"
        with disk_errors("write a log"):
            write_whole(self._out / f"{path}.log", text)
        return f"{path}.log"

    def _write(self, event: str, **values: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"event": event, "at": at, **values}) + "\n"
        with disk_errors("write the journal"), self._lock:
            if not self._sink.closed:
                self._sink.write(line)


def _file_name(text: str) -> str:
    return _NAME.sub("-", text).strip("-.")[-100:] or "case"
