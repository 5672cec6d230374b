"""The suggested limit of the affinity solver is the smallest that compiles, on released
compilers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
LIMIT = "--iree-stream-affinity-solver-max-iterations="


def limits(
    triage: Triage, name: str, version: str, code: int
) -> tuple[list[str], list[str]]:
    """Return the suggested flags and the messages about the number of iterations."""
    done = triage("lint", RECIPES / f"{name}.yaml", "-t", version, "--format", "json")
    assert done.returncode == code, done.stderr
    report = json.loads(done.stdout)
    return report["suggested_flags"], [
        finding["message"]
        for finding in report["findings"]
        if finding["rule"] == "solver-iterations"
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("sharded-for-loops", "3.13.0"),
        pytest.param("sharded-while-loops", "3.8.0", marks=pytest.mark.slow),
        pytest.param("sharded-for-loops", "3.8.0", marks=pytest.mark.slow),
        # fails without a message
        pytest.param("sharded-for-loops", "3.6.0", marks=pytest.mark.slow),
    ],
)
def test_the_suggested_limit_compiles_and_one_less_does_not(
    shared_home: Path, triage: Triage, tmp_path: Path, name: str, version: str
) -> None:
    [flag], [message] = limits(triage, name, version, 1)
    assert flag.startswith(LIMIT)
    assert flag in message
    least = int(flag.removeprefix(LIMIT))
    assert least > 128
    text = (
        (RECIPES / f"{name}.yaml")
        .read_text()
        .partition("expect:")[0]
        .replace("models/", f"{RECIPES}/models/")
    )
    statuses = []
    for allowed in (least - 1, least, 4 * least):
        path = tmp_path / f"{name}-{allowed}.yaml"
        path.write_text(
            re.sub("name: .*", f"name: allowed-{allowed}", text, count=1)
            + f'flags: ["{LIMIT}{allowed}"]\n'
        )
        [result] = json.loads(
            triage("run", path, "-t", version, "--format", "json").stdout
        )["results"]
        statuses.append((result["status"], (result["failure"] or {}).get("family")))
    assert statuses == [
        ("failed", "non-convergence"),
        ("passed", None),
        ("passed", None),
    ]
    allowed = tmp_path / f"{name}-{least}.yaml"
    with_flag = triage("lint", allowed, "-t", version, "--format", "json")
    assert with_flag.returncode == 0, with_flag.stdout
