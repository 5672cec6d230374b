"""What a compiler's output means when it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Detail = str | int


@dataclass(frozen=True, slots=True)
class Failure:
    """One diagnosed failure.

    failure_class: the rule's name, such as `shared-memory-overflow`; `unknown` where no rule knows it.
    family: the classes that one root cause wanders through between releases; the class itself where there is none.
    signature: stable identity, `class` or `class:text`, the same across wording drift, SSA names, numbers and paths.
    headline: the compiler's own line that says it best, cleaned of prefixes.
    phase: an IREE `--compile-to` phase (or a Triton stage); failing_pass: the pass's class name; location: `file:line:col`.
    details: the rule's captures; integers are integers (bytes unless the name says otherwise).
    line: 1-based line of the log; count: how many times this signature stands in it.
    """

    failure_class: str
    family: str
    signature: str
    headline: str
    phase: str | None = None
    failing_pass: str | None = None
    location: str | None = None
    details: Mapping[str, Detail] = field(default_factory=dict)
    line: int | None = None
    count: int = 1
