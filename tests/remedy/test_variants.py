"""The keys that a failure depends on, and a sentence that is exact for the compiled
variants.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.remedy.flag_compiler import FlagEngine, a_case, a_place, failed
from triage.model.outcome import Cause, Passed, Status
from triage.model.revision import Revision
from triage.remedy.variants import Variant, compare_variants, depends_on


def grid(outcomes: str, **axes: list[str]) -> list[Variant]:
    """Return a variant for each letter: F has the failure, X another one."""
    choices = product(*axes.values())
    return [
        Variant(
            case="case",
            recipe="case",
            toolchain=Revision("1.0.0"),
            status=Status.PASSED if letter == "P" else Status.FAILED,
            cause=Cause.FLAG if letter == "U" else None,
            values=dict(zip(axes, values, strict=True)),
            same_failure=letter == "F",
        )
        for letter, values in zip(outcomes, choices, strict=True)
    ]


DTYPE = {"dtype": ["f16", "f8"]}
WARPS = {"num_warps": ["4", "8", "16"]}


@pytest.mark.parametrize(
    "outcomes, axes, matters, sentence",
    [
        (
            "PFFPPP",
            DTYPE | WARPS,
            ("dtype", "num_warps"),
            "It fails exactly for dtype=f16 and num_warps=8 or 16.",
        ),
        (
            "UFP",
            WARPS,
            ("num_warps",),
            "It fails exactly for num_warps=8; 1 of 3 cannot be tested.",
        ),
        (
            "FPPF",
            DTYPE | {"n": ["1", "2"]},
            ("dtype", "n"),
            "It fails in 2 of 4 cases, which no single combination of values describes.",
        ),
    ],
)
def test_the_deciding_keys(
    outcomes: str, axes: dict[str, list[str]], matters: tuple[str, ...], sentence: str
) -> None:
    assert depends_on(grid(outcomes, **axes)) == (matters, sentence)


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ("", "It fails exactly for n=1; 1 of 3 fail in another way."),
        ("2", "It fails exactly for n=2; 1 of 3 fail in another way."),
        ("3", "m[n=3] does not fail."),
    ],
)
def test_the_sentence_is_about_the_given_case(about: str, sentence: str) -> None:
    outcomes = {"1": failed("segfault"), "2": failed(), "3": Passed()}
    cases = {
        n: replace(a_case(f"--n={n}"), name=f"m[n={n}]", matrix=(("n", n),))
        for n in outcomes
    }
    engine: Any = FlagEngine(lambda flags, name: outcomes[min(flags)[-1]])
    chosen = cases.get(about)
    answer = compare_variants(engine, [*cases.values()], a_place(), chosen)
    assert answer.sentence == sentence
