"""Compilers from the package index without an adapter. Their wheels are small, so the
tests take seconds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real
STATIC = ROOT / "recipes/cython-static-method.yaml"


def test_a_regression_of_cython_is_bisected(shared_home: Path, triage: Triage) -> None:
    done = triage(
        "bisect", STATIC, "--good", "0.29.36", "--bad", "3.0.1", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    bisection = json.loads(done.stdout)
    assert (
        bisection["before"]["name"],
        bisection["after"]["name"],
        bisection["confirmed"],
    ) == ("0.29.37", "3.0.0", True)
    assert (
        bisection["failure"]["signature"] == "cython-crash:AnalyseExpressionsTransform"
    )
