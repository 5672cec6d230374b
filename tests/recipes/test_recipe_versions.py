"""Which expectations and flags hold for which version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bisect.letters import case_named
from triage.model.case import Case, Expectation, Flag
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.expectations import expectation_for, flag_applies, matches


def case(*expect: Expectation) -> Case:
    return replace(case_named("a"), expect=expect)


def holds(since: str | None, until: str | None, version: str | None) -> bool:
    return (
        expectation_for(case(Expectation("crash", since, until)), version) is not None
    )


@pytest.mark.parametrize(
    ("since", "until", "version", "expected"),
    [
        ("3.1.0", "3.8.0", "3.1.0", True),
        ("3.1.0", "3.8.0", "3.8.0", False),
        ("3.9.0", None, "3.10.0", True),
        # a nightly counts as the release it leads to
        ("3.5.0", None, "3.5.0rc20250604", True),
        (None, "3.5.0", "3.5.0rc20250604", False),
        (None, "3.5.0", "3.5.0.post1", False),
        ("3.5.0", "3.5.1", "3.5.0+cu128", True),
        # a bound that names more than a release is exact
        ("3.5.0rc20250604", None, "3.5.0rc20250603", False),
        (None, "3.5.0rc20250604", "3.5.0rc20250603", True),
    ],
)
def test_ranges(since, until, version, expected):
    assert holds(since, until, version) is expected
    assert flag_applies(Flag("-a", since, until), version) is expected


@pytest.mark.parametrize("version", [None, "local build"])
def test_an_unknown_version_excuses_nothing_and_is_new(version: str | None) -> None:
    assert holds(None, None, version)
    assert not holds("3.1.0", None, version)
    assert flag_applies(Flag("-a", since="3.1.0"), version)
    assert not flag_applies(Flag("-a", until="3.1.0"), version)


def test_a_failure_is_named_by_its_class_its_family_or_its_stage():
    failure = Failure("shared-memory-overflow", "memory", "s", "h")
    for name, stage, is_named in (
        ("shared-memory-overflow", None, True),
        ("memory", None, True),
        ("shared", None, False),
        (None, Stage.COMPILE, True),
        ("memory", Stage.RUN, False),
    ):
        assert matches(Expectation(name, stage=stage), failure) is is_named
