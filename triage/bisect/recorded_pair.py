"""The pair of revisions that decides a stored answer, to be tested once more."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.errors import BadInput
from triage.model.outcome import Cause, NoAnswer
from triage.toolchains.registry import parse_rev

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class RecordedPair:
    """The two revisions that decide an answer, the older one first."""

    kind: BisectKind
    before: str
    """A REV."""
    after: str
    signature: str
    """Of the failure that came or went."""

    @classmethod
    def read(cls, path: Path) -> RecordedPair:
        """Read them from the JSON of a bisect. Raises BadInput if it names no pair."""
        try:
            found = json.loads(path.read_text())
            kind, failure = BisectKind(found["kind"]), found["failure"]
            ends = [found["before"], found["after"]]
            if found["status"] != Answer.CULPRIT:
                raise BadInput(f"{path} names no culprit, so that no pair decides it")
            if found["changed"]:
                broke = found["broke"]
                ends, failure = [broke["before"], broke["after"]], broke["failure"]
            if found["undone"]:  # then `kind` and the pair are the other way round
                kind = next(other for other in BisectKind if other is not kind)
                ends.reverse()
            return cls(kind, _rev_of(ends[0]), _rev_of(ends[1]), failure["signature"])
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from error
        except (KeyError, TypeError) as error:
            raise BadInput(f"{path} is not the JSON of a bisect: {error!r}") from error
        except ValueError as error:
            raise BadInput(f"{path} is not the JSON of a bisect: {error}") from error

    def compare(self, found: Bisection) -> Bisection:
        """Return the answer about the pair, inconclusive if it fails otherwise than
        recorded.
        """
        failure = found.failure
        if failure is None or failure.signature == self.signature:
            return found
        why = f"the pair has another failure than recorded: {failure.signature}"
        return replace(
            found,
            status=Answer.INCONCLUSIVE,
            confirmed=False,
            unanswered=NoAnswer(Cause.NOT_FOUND, why),
        )


def _rev_of(revision: Mapping[str, str | None]) -> str:
    """Return the REV of a revision in JSON. It never names a folder or a program, since
    somebody else may have written the file.
    """
    name, commit = revision["name"] or "", revision["commit"] or ""
    if commit.startswith(name) and _COMMIT.fullmatch(commit):
        return f"commit:{commit}"
    if parse_rev(name)[0] not in ("version", "nightly"):
        raise ValueError(f'"{name}" is not a release, a nightly or a commit')
    return name
