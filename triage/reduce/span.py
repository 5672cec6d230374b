"""Over which versions a program fails, read off its probes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from triage.model.case import Expectation
from triage.model.outcome import Compiled, Failed, Outcome, Untestable
from triage.model.probe import Probe


@dataclass(frozen=True, slots=True)
class Span:
    """The versions around the bad one that fail as it does; untestable ones are passed over and are no part of it.

    before, after: the nearest tested versions on both sides, which compile or fail otherwise; None where none was tried.
    untested: versions between `before` and first_bad that could not be tested.
    """

    before: Probe | None
    first_bad: Probe
    last_bad: Probe
    after: Probe | None
    untested: tuple[Probe, ...] = ()

    @property
    def last_good(self) -> Probe | None:
        """The version before it, where that compiles."""
        return self.before if self.before and isinstance(self.before.outcome, Compiled) else None

    @property
    def first_good(self) -> Probe | None:
        """The version after it, where that compiles."""
        return self.after if self.after and isinstance(self.after.outcome, Compiled) else None


def in_order(probes: Iterable[Probe]) -> tuple[Probe, ...]:
    """Probes by version, those without one last."""
    return tuple(sorted(probes, key=lambda one: ((version := _version(one)) is None, version or Version("0"))))


def span_around(probes: Sequence[Probe], bad: Probe, signature: str) -> Span:
    """The span of a signature around one of the probes, which stand in the order of their versions and are on one line."""
    at = probes.index(bad)
    first_bad, before, untested = _as_far_as_it_goes(reversed(probes[:at]), bad, signature)
    last_bad, after, _ = _as_far_as_it_goes(probes[at + 1 :], bad, signature)
    return Span(before, first_bad, last_bad, after, tuple(reversed(untested)) if before else ())


def _as_far_as_it_goes(probes: Iterable[Probe], bad: Probe, signature: str) -> tuple[Probe, Probe | None, list[Probe]]:
    """The last of the same failures on the way, what is tested behind it, and the untestable between the two."""
    untested: list[Probe] = []
    for probe in probes:
        match probe.outcome:
            case Untestable():
                untested.append(probe)
            case Failed(failure=failure) if failure.signature == signature:
                bad, untested = probe, []
            case Compiled() | Failed():
                return bad, probe, untested
    return bad, None, untested


def expectations(probes: Iterable[Probe]) -> tuple[Expectation, ...]:
    """The windows of versions over which the same class of failure was seen, from the first version that was seen to fail
    to the first that was seen to do otherwise. Untestable versions, and those without a version, say nothing.
    """
    windows: list[Expectation] = []
    for probe in in_order(probes):
        if _version(probe) is None or isinstance(probe.outcome, Untestable):
            continue
        seen = _class(probe.outcome)
        known = windows[-1] if windows and windows[-1].until is None else None
        if known and known.failure != seen:
            windows[-1] = replace(known, until=probe.version)
        if seen and (known is None or known.failure != seen):
            windows.append(Expectation(seen, since=probe.version))
    return tuple(windows)


def _class(outcome: Outcome) -> str | None:
    return outcome.failure.failure_class if isinstance(outcome, Failed) else None


def _version(probe: Probe) -> Version | None:
    try:
        return Version(probe.version) if probe.version else None
    except InvalidVersion:
        return None
