"""What lists show of a night: the toolchains, the counts, a verdict on each backend. It
is read without the classes of a whole night, which are slow to import.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from triage.model.fields import UNPRINTED, key
from triage.model.revision import Revision

if TYPE_CHECKING:
    from triage.nightly.result import Night

SCHEMA: Final = 6  # of the JSON of a night


@dataclass(frozen=True, slots=True)
class BackendVerdict:
    """The verdict of a night on one backend. `failures` counts different new failures,
    each of one or more cases.
    """

    backend: str
    """Empty for compilers without backends."""
    cases: int
    broken: int
    """Cases that fail in a new way."""
    fixed: int
    untestable: int = 0
    """Cases that one of the toolchains could not test."""
    failures: int = 0
    with_culprit: int = 0
    """New failures whose culprit a bisect found."""
    slower: int = 0
    """Cases that became slower."""


@dataclass(frozen=True, slots=True)
class NightSummary:
    """A stored night in the list of nights."""

    number: int = field(metadata=key("night"))
    started: str = field(metadata=key("at"))
    compiler: str | None = field(metadata=UNPRINTED)
    toolchain: Revision
    baseline: Revision
    partial: bool
    verdict: Sequence[BackendVerdict]

    @property
    def day(self) -> str:
        return self.started[:10]

    @property
    def order(self) -> tuple[str, int]:
        return self.started, self.number

    @classmethod
    def of(cls, number: int, night: Night) -> NightSummary:
        return cls(
            number,
            night.started,
            night.compiler,
            night.toolchain,
            night.baseline,
            night.partial,
            night.verdict,
        )

    def line(self) -> bytes:
        """Return the summary as a line of JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, number: int, line: bytes) -> NightSummary:
        """Read what `line` returned. Raises ValueError for something else."""
        values = json.loads(line)
        try:
            values["number"] = number
            for end in ("toolchain", "baseline"):
                values[end] = Revision(**values[end])
            verdicts = values["verdict"]
            values["verdict"] = [BackendVerdict(**verdict) for verdict in verdicts]
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError("it is not the summary of a night") from error
