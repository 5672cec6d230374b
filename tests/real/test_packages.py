"""Compilers from the package index without an adapter. Their wheels are small, so the
tests take seconds.
"""

from __future__ import annotations

import pytest

from tests.conftest import ROOT, Asked

pytestmark = pytest.mark.real
STATIC = ROOT / "recipes/cython-static-method.yaml"


def test_a_regression_of_cython_is_bisected(asked: Asked) -> None:
    bisection = asked("bisect", STATIC, "--good", "0.29.36", "--bad", "3.0.1")
    ends = bisection["before"]["name"], bisection["after"]["name"]
    assert (*ends, bisection["confirmed"]) == ("0.29.37", "3.0.0", True)
    signature = bisection["failure"]["signature"]
    assert signature == "cython-crash:AnalyseExpressionsTransform"
