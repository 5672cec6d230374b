"""The best draft on disk, so that a reduction that was ended at any moment goes on from it."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from triage.model.case import Case, Flag, Kernel, Target
from triage.probe.scratch import Scratch
from triage.reduce.draft import Draft
from triage.toolchains.home import disk_errors, write_whole


class State:
    """A folder with `best.mlir` (or the input's own suffix) and `settings.json`, each replaced as a whole."""

    def __init__(self, home: Path, key: str) -> None:
        """key: what the reduction is of, its program and its compilers among it; another key is another folder."""
        self.folder = home / "reductions" / sha256(key.encode()).hexdigest()[:16]
        with disk_errors("keep the reduction"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def drafts(self) -> AbstractContextManager[Path]:
        """A folder for drafts' files, of this run alone: two runs of one reduction are in nobody's way."""
        return Scratch(self.folder / "drafts").place()

    def keep(self, draft: Draft) -> None:
        """Write the draft. The program goes first: settings of an older draft fail on it just as well or are refused."""
        with disk_errors("keep the reduction"):
            write_whole(self.folder / f"best.{draft.document.suffix}", draft.document.content)
            case = draft.case
            settings = {"flags": [asdict(flag) for flag in case.flags], "target": _plain(case.target), "phase": case.phase}
            kernel = asdict(case.how) if isinstance(case.how, Kernel) else None
            write_whole(self.folder / "settings.json", json.dumps({**settings, "kernel": kernel}).encode())

    def best(self, case: Case) -> tuple[Path, Case] | None:
        """The kept program and the case with its settings; None where there is none."""
        kept = next(iter(self.folder.glob("best.*")), None)
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads((self.folder / "settings.json").read_text("utf-8"))
            flags = tuple(Flag(**one) for one in said["flags"])
            how = Kernel(**said["kernel"]) if said["kernel"] else case.how
            if kept:
                return kept, replace(case, flags=flags, target=Target(**said["target"]), phase=said["phase"], how=how)
        return None


def _plain(target: Target) -> dict[str, object]:
    return {"backend": target.backend, "chip": target.chip, "devices": target.devices, "options": dict(target.options)}
