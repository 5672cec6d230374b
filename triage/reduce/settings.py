"""Changes of flags, target and options that a reduction makes, and the check that the original fails with them, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from triage.compilers.base import KernelSpec
from triage.execution.judge import Metric, value_of, verdict_of
from triage.execution.prober import Naming
from triage.execution.runner import CandidateCompiler, ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Probe, Verdict
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.state import SettingChange

_LONGEST = 300.0  # seconds of compiles to check one change; a change that costs more is not made
_UNKNOWN = 60.0  # seconds of compiles on releases of which nothing is known yet; beyond, only known results are compared


def setting_changes(original: Case, reduced: Case) -> tuple[SettingChange, ...]:
    """Return what differs between two cases, apart from their programs."""
    return tuple(_changes(original, reduced))


def _changes(original: Case, reduced: Case) -> Iterator[SettingChange]:
    left = [flag.text for flag in reduced.flags]
    for flag in original.flags:
        if flag.text in left:
            left.remove(flag.text)
        else:
            yield SettingChange("flag", flag.text, None)
    yield from (SettingChange("flag", None, text) for text in left)
    pairs: list[tuple[str, object, object]] = [
        ("chip", original.target.chip, reduced.target.chip),
        ("devices", original.target.devices, reduced.target.devices),
    ]
    if isinstance(original.spec, KernelSpec) and isinstance(reduced.spec, KernelSpec):
        old, new = original.spec.options, reduced.spec.options
        pairs += [(f"option {name}", old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))]
    for name, before, after in pairs:
        if before != after:
            yield SettingChange(name, *(None if value is None else str(value) for value in (before, after)))


class SettingsCheck:
    """Decides whether settings may be changed: the original must fail with them wherever it fails with its own.

    Safe for several threads. kept: the changes that were not made.
    """

    def __init__(self, runner: ProbeRunner, original: Case, bad: Toolchain, good: Toolchain | None, start: Baseline) -> None:
        """original: as it was before anything was reduced. start: its failure."""
        self._runner, self._original, self._bad, self._good, self._start = runner, original, bad, good, start
        self._lock = threading.Lock()
        self._answers: dict[object, bool] = {}
        self._compared: list[tuple[Toolchain, Verdict]] | None = None
        self.kept: list[SettingChange] = []

    def holds(self, case: Case) -> bool:
        """Return whether the original with the settings of a draft's case fails where it fails with its own settings."""
        changed = _with_settings(self._original, case)
        key = _shared(changed)
        if key == _shared(self._original):
            return True
        with self._lock:
            if key not in self._answers:
                self._answers[key] = self._fails_alike(changed)
                if not self._answers[key]:
                    self.kept += [change for change in _changes(self._original, changed) if change not in self.kept]
            return self._answers[key]

    def _fails_alike(self, changed: Case) -> bool:
        if (metric := self._start.metric) is not None:
            return self._has_grown(changed, metric)
        if self._verdict(self._trial(changed, self._bad)) is not Verdict.BAD:
            return False
        self._compared = self._compared if self._compared is not None else self._known()
        if len(self._compared) * self._start.seconds > _LONGEST:
            return False
        return all(self._verdict(self._trial(changed, toolchain)) is verdict for toolchain, verdict in self._compared)

    def _has_grown(self, changed: Case, metric: Metric) -> bool:
        assert self._good
        high, low = (value_of(self._trial(changed, toolchain), metric) for toolchain in (self._bad, self._good))
        return high is not None and low is not None and high > self._start.factor * low

    def _known(self) -> list[tuple[Toolchain, Verdict]]:
        """Return the verdicts on the original, with its own settings, on all releases that it is compared on."""
        prober, registry = self._runner.prober, self._runner.registry
        others = [registry.obtain(ref) for ref in registry.installed_releases(self._original.compiler)]
        others += [self._good] if self._good else []
        releases = {toolchain.identity: toolchain for toolchain in others if toolchain.identity != self._bad.identity}
        probes = {identity: prober.recall(self._original, toolchain) for identity, toolchain in releases.items()}
        unknown = [identity for identity, probe in probes.items() if probe is None]
        if len(unknown) * self._start.seconds <= _UNKNOWN:
            probes |= {identity: self._trial(self._original, releases[identity]) for identity in unknown}
        verdicts = ((releases[identity], self._verdict(probe)) for identity, probe in probes.items() if probe)
        return [(toolchain, verdict) for toolchain, verdict in verdicts if verdict is not Verdict.SKIP]

    def _trial(self, case: Case, toolchain: Toolchain) -> Probe:
        naming = Naming.NEVER if self._start.metric is not None else self._start.naming
        trials: CandidateCompiler = self._runner if self._start.is_portable else self._runner.prober
        return trials.trial(replace(case, name=f"{case.name} (reducing)"), toolchain, naming)

    def _verdict(self, probe: Probe) -> Verdict:
        return verdict_of(probe.outcome, self._start.match)


def _with_settings(original: Case, case: Case) -> Case:
    changed = replace(original, flags=case.flags, target=case.target)
    if isinstance(original.spec, KernelSpec) and isinstance(case.spec, KernelSpec):
        changed = replace(changed, spec=replace(original.spec, options=case.spec.options))
    return changed


def _shared(case: Case) -> tuple[object, ...]:
    options = sorted(case.spec.options.items()) if isinstance(case.spec, KernelSpec) else ()
    return case.flags, case.target, repr(options)
