"""What a user calls the same failure."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from triage.model.failure import Failure
from triage.probe.judge import Match, any_failure, same_class, same_family, same_signature


class Identity(StrEnum):
    """What counts as the same failure."""

    SIGNATURE = "signature"
    CLASS = "class"
    FAMILY = "family"
    ANY = "any"


MATCHES: dict[Identity, Callable[[Failure], Match]] = {
    Identity.SIGNATURE: same_signature,
    Identity.CLASS: same_class,
    Identity.FAMILY: same_family,
    Identity.ANY: lambda _: any_failure,
}
