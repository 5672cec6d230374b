"""What was said during a bisect, line by line on disk, so that an interruption costs nothing; git's format both ways."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from triage.model.errors import BadInput
from triage.model.outcome import Verdict
from triage.toolchains.home import disk_errors, write_whole

_GIT_LINE = re.compile(r"git bisect (good|bad|skip|new|old)((?: '?[0-9a-f]{7,40}'?)+)\s*$")
_WORDS = {"good": Verdict.GOOD, "old": Verdict.GOOD, "bad": Verdict.BAD, "new": Verdict.BAD, "skip": Verdict.SKIP}


@dataclass(frozen=True, slots=True)
class Entry:
    """One verdict. `name`: a sha or a release; `by`: `probe` for what a compile said, `person` for what the user said;
    `why`: the failure or the reason, where there is one.
    """

    name: str
    verdict: Verdict
    by: str
    why: str = ""


class Journal:
    """Append-only JSON lines. Each is written whole or not at all, so that a kill loses at most the last one."""

    def __init__(self, folder: Path, key: Iterable[str]) -> None:
        """`key`: what tells one bisect from another: case, ends, kind."""
        name = blake2b("\0".join(key).encode(), digest_size=10).hexdigest()
        self.path = folder / f"{name}.jsonl"

    def read(self) -> tuple[Entry, ...]:
        """What was said so far, in order. A line that a kill cut short is passed over."""
        found: list[Entry] = []
        try:
            text = self.path.read_text("utf-8")
        except OSError:
            return ()
        for line in text.splitlines():
            try:
                kept = json.loads(line)
                found.append(Entry(kept["name"], Verdict(kept["verdict"]), kept["by"], kept.get("why", "")))
            except (ValueError, KeyError, TypeError):
                continue
        return tuple(found)

    def add(self, entry: Entry) -> None:
        """Append one verdict."""
        with disk_errors("write the journal of the bisect"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as sink:
                sink.write(json.dumps(asdict(entry)) + "\n")
                sink.flush()
                os.fsync(sink.fileno())

    def put_aside(self) -> None:
        """Begin anew; what was there is kept beside it, once."""
        with disk_errors("put the journal of the bisect aside"):
            if self.path.exists():
                self.path.replace(self.path.with_suffix(".before"))

    def replace(self, entries: Iterable[Entry]) -> None:
        """Write anew, for a verdict that was taken back."""
        with disk_errors("write the journal of the bisect"):
            write_whole(self.path, "".join(json.dumps(asdict(entry)) + "\n" for entry in entries))


def git_log(entries: Iterable[Entry], before: str, after: str) -> str:
    """The verdicts as a log that `git bisect replay` reads. before, after: the shas of the two ends."""
    lines = ["git bisect start", f"git bisect good {before}", f"git bisect bad {after}"]
    lines += [f"# {entry.by}: {entry.why}\ngit bisect {entry.verdict.value} {entry.name}" for entry in entries]
    return "\n".join(lines) + "\n"


def from_git_log(text: str, name: str) -> tuple[Entry, ...]:
    """The verdicts of a `git bisect log`. BadInput names the first line that is none; comments and `start` are passed."""
    found: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(("#", "git bisect start", "status:")):
            continue
        said = _GIT_LINE.match(line)
        if said is None:
            raise BadInput(f"{name}:{number}:1: no line of a git bisect log: {line[:80]!r}")
        found += [Entry(sha.strip("'"), _WORDS[said[1]], "person") for sha in said[2].split()]
    return tuple(found)
