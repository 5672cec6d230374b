"""The suggested limit of the affinity solver is the smallest that compiles, on released
compilers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
LIMIT = "--iree-stream-affinity-solver-max-iterations="


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
    asked: Asked, tmp_path: Path, name: str, version: str
) -> None:
    recipe = RECIPES / f"{name}.yaml"
    report = asked("lint", recipe, "-t", version, code=1)
    [flag] = report["suggested_flags"]
    assert flag.startswith(LIMIT)
    messages = {row["rule"]: row["message"] for row in report["findings"]}
    assert flag in messages["solver-iterations"]
    least = int(flag.removeprefix(LIMIT))
    assert least > 128
    text = recipe.read_text().partition("expect:")[0]
    text = text.replace("models/", f"{RECIPES}/models/")
    path = tmp_path / "allowed.yaml"
    for allowed, family in (
        (least - 1, "non-convergence"),
        (4 * least, None),
        (least, None),
    ):
        path.write_text(f'{text}flags: ["{LIMIT}{allowed}"]\n')
        code = 1 if family else 0
        [result] = asked("run", path, "-t", version, code=code)["results"]
        assert (result["failure"] or {}).get("family") == family
    asked("lint", path, "-t", version)
