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


def test_a_package_is_installed_with_its_requirements_and_its_own_python(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    (tmp_path / "who.py").write_text(
        "import sys, jinja2, markupsafe; print(sys.prefix, jinja2.__version__)\n"
    )
    (tmp_path / "own.yaml").write_text(
        'name: own\ncompiler: command\npackage: [jinja2, "markupsafe<3"]\ninput: who.py\n'
        'command: ["{python}", "-c", "import sys, jinja2, markupsafe; assert jinja2.__version__ == \'3.1.4\'; '
        'assert markupsafe.__version__ < \'3\'; assert sys.prefix == sys.argv[1]", "{toolchain}"]\n'
    )
    done = triage("run", tmp_path / "own.yaml", "-t", "3.1.4", "--format", "json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["results"][0]["status"] == "passed"
