"""Which toolchains a command names for which of its cases, where recipes of several compilers are given together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triage.cli.screen import tell
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.recipes.words import IREE


@dataclass(frozen=True, slots=True)
class Share:
    """The cases of one family and the REVs that are theirs, as they were written."""

    family: str
    cases: tuple[Case, ...]
    revs: tuple[str, ...]


def shares(cases: Sequence[Case], revs: Sequence[str]) -> list[Share]:
    """The cases by family, each with its REVs. A REV with a prefix (`triton:3.2.0`) is of that family. One without is of
    the only family there is; among several it is of iree, the family of recipes that name none. A family with no REV is
    left out, and that is told.

    BadInput for a REV that is of none of the families given.
    """
    families = list(dict.fromkeys(case.compiler for case in cases))
    named: dict[str, list[str]] = {family: [] for family in families}
    for rev in revs:
        named[_family_of(rev, families)].append(rev)
    found = [
        Share(family, tuple(case for case in cases if case.compiler == family), tuple(named[family])) for family in families
    ]
    for share in found:
        if not share.revs:
            count = f"{len(share.cases)} case{'s' if len(share.cases) != 1 else ''}"
            tell(f"left out: {count} of {share.family}, for which no toolchain is named, such as {share.family}:latest")
    return [share for share in found if share.revs]


def only_share(cases: Sequence[Case], revs: Sequence[str], what: str) -> Share:
    """The one family that `what` is about. BadInput where the REVs are of several."""
    chosen = shares(cases, revs)
    if len(chosen) != 1 or len(chosen[0].revs) != len(revs):
        raise BadInput(f"{what} is about one compiler, and {', '.join(revs)} are of {len(chosen)}")
    return chosen[0]


def _family_of(rev: str, families: Sequence[str]) -> str:
    """The family a REV belongs to."""
    prefix = max((name for name in families if rev.startswith(f"{name}:")), key=len, default=None)
    if prefix is not None:
        return prefix
    if len(families) == 1:
        return families[0]
    if IREE.name in families:
        return IREE.name
    raise BadInput(f"these recipes are of {', '.join(families)}: say whose {rev!r} is, such as {families[0]}:{rev}")
