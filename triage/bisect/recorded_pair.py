"""The pair of revisions that decides a stored answer, to be tested once more."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.errors import BadInput
from triage.model.foreign_file import read_bytes
from triage.model.outcome import Cause, NoAnswer
from triage.toolchains.registry import recorded_rev

_LARGEST = 64 << 20  # bytes of an answer


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
            found = json.loads(read_bytes(path, _LARGEST))
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
            older, newer = (
                recorded_rev(end["name"] or "", end["commit"]) for end in ends
            )
            return cls(kind, older, newer, failure["signature"])
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from error
        except (KeyError, TypeError, AttributeError) as error:
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
