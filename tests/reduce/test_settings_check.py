"""A reduction keeps a change of settings only if the original fails with it wherever it fails with its own settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.reduce.test_search import CASE
from triage.compilers.base import KernelSpec
from triage.execution.judge import same_signature
from triage.execution.prober import Naming
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, Flag, Target
from triage.model.outcome import Compiled, Failed, Failure, Measured, Probe
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.settings import SettingsCheck, setting_changes

FAILURE = Failure("crash", "crash", "crash:x", "x")
ORIGINAL = replace(CASE, target=Target("cuda", "sm_80"), flags=(Flag("--a"), Flag("--b=1")))
OLDER = replace(ORIGINAL, target=Target("cuda", "sm_75"))
RELEASES = ("1.0", "2.0", "3.0")
BAD = "3.0"


def toolchain(name: str) -> Toolchain:
    return Toolchain("iree", Revision(name), name, Path(name), Path(name), Capabilities(), name)


class Compilers:
    """Compilers that fail on the pairs of release and chip in `failing`; `cached`: releases whose original is in the cache."""

    def __init__(self, failing: set[tuple[str, str]], cached: set[str]) -> None:
        self.failing, self.cached = failing, cached
        self.trials: list[tuple[str, str]] = []

    def _probe(self, case: Case, release: Toolchain) -> Probe:
        fails = (release.identity, case.target.chip) in self.failing
        outcome = Failed(FAILURE) if fails else Compiled()
        return Probe(case, release.revision, release.version, outcome, Measured(), cached=False)

    def recall(self, case: Case, release: Toolchain) -> Probe | None:
        return self._probe(case, release) if release.identity in self.cached else None

    def trial(self, case: Case, release: Toolchain, _naming: Naming) -> Probe:
        self.trials.append((release.identity, str(case.target.chip)))
        return self._probe(case, release)


def check(compilers: Compilers, seconds: float = 1.0) -> SettingsCheck:
    registry = SimpleNamespace(installed_releases=lambda _family: RELEASES, obtain=toolchain)
    runner = cast(ProbeRunner, SimpleNamespace(trial=compilers.trial, prober=compilers, registry=registry))
    start = Baseline(FAILURE, same_signature(FAILURE), Naming.NEVER, seconds, 1, ())
    return SettingsCheck(runner, ORIGINAL, toolchain(BAD), None, start)


ALIKE = {(release, chip) for release in ("2.0", "3.0") for chip in ("sm_75", "sm_80")}


def test_a_change_holds_where_the_original_fails_alike() -> None:
    settings = check(Compilers(ALIKE, set(RELEASES)))
    assert settings.holds(OLDER)
    assert not settings.kept


@pytest.mark.parametrize("release", RELEASES)
def test_another_result_on_one_compared_release_forbids_the_change(release: str) -> None:
    settings = check(Compilers(ALIKE ^ {(release, "sm_75")}, set(RELEASES)))
    assert not settings.holds(OLDER)
    assert [str(change) for change in settings.kept] == ["chip is sm_75 instead of sm_80"]


def test_own_settings_need_no_compile_and_a_question_is_asked_once() -> None:
    compilers = Compilers(ALIKE, set(RELEASES))
    settings = check(compilers)
    assert settings.holds(ORIGINAL)
    assert not compilers.trials
    assert settings.holds(OLDER)
    assert settings.holds(replace(OLDER, phase="flow"))
    assert sorted(compilers.trials) == [("1.0", "sm_75"), ("2.0", "sm_75"), ("3.0", "sm_75")]


def test_a_quick_original_is_compiled_on_releases_of_which_nothing_is_known() -> None:
    assert not check(Compilers(ALIKE - {("2.0", "sm_75")}, set()), seconds=1.0).holds(OLDER)


def test_a_slow_original_is_compared_where_its_result_is_known() -> None:
    compilers = Compilers(ALIKE - {("2.0", "sm_75")}, set())
    assert check(compilers, seconds=100.0).holds(OLDER)
    assert {release for release, _ in compilers.trials} == {BAD}


def test_a_check_that_takes_too_long_keeps_the_setting() -> None:
    assert not check(Compilers(ALIKE, set(RELEASES)), seconds=200.0).holds(OLDER)


def test_every_change_is_listed() -> None:
    kernel = KernelSpec("k", {"x": "*f32"}, {"BLOCK": 64}, {}, {"num_warps": 8, "num_stages": 3})
    small = replace(kernel, constexprs={"BLOCK": 16}, options={"num_warps": 4})
    before = replace(ORIGINAL, spec=kernel, target=Target("cuda", "sm_80", 8))
    after = replace(before, spec=small, target=Target("cuda", "sm_75", 2), flags=(Flag("--b=1"),))
    assert [(change.setting, change.before, change.after) for change in setting_changes(before, after)] == [
        ("flag", "--a", None),
        ("chip", "sm_80", "sm_75"),
        ("devices", "8", "2"),
        ("option num_warps", "8", "4"),
        ("option num_stages", "3", None),
    ]
