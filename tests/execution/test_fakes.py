"""The fakes that the tests of the searches use implement the port of the real runner. mypy checks this module."""

from __future__ import annotations

import inspect

import pytest

from tests.bisect.letters import HistoryRunner, LetterRunner
from tests.remedy.flag_compiler import FlagRunner
from triage.execution.runner import CaseProber, ProbeRunner

CASE_PROBERS: tuple[type[CaseProber], ...] = (ProbeRunner, HistoryRunner, LetterRunner, FlagRunner)


@pytest.mark.parametrize("prober", CASE_PROBERS, ids=lambda prober: prober.__name__)
def test_a_fake_is_called_like_the_runner(prober: type[CaseProber]) -> None:
    assert list(inspect.signature(prober.probe_all).parameters) == list(inspect.signature(CaseProber.probe_all).parameters)
