"""The keys that a failure depends on, and a sentence that is exact for the compiled variants."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.remedy.flag_compiler import FlagRunner, a_case, a_place, failed
from triage.compilers.base import KernelSpec
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Compiled, Outcome, Untestable
from triage.remedy.variants import Observed, VariantResult, compare_variants, depends_on, differences, neighbourhood, varied
from triage.report.shapes import as_json
from triage.report.variants import VariantsReport

F, P, X, U = VariantResult.FAILS, VariantResult.COMPILES, VariantResult.OTHER, VariantResult.UNTESTABLE


def grid(outcomes: str, **axes: list[str]) -> list[Observed]:
    letters = {"F": F, "P": P, "X": X, "U": U}
    choices = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return list(zip(choices, (letters[letter] for letter in outcomes), strict=True))


DTYPE = {"dtype": ["f16", "f8"]}
WARPS = {"num_warps": ["4", "8", "16"]}


@pytest.mark.parametrize(
    "outcomes, axes, matters, sentence",
    [
        ("FFFPPP", DTYPE | WARPS, ("dtype",), "It fails exactly for dtype=f16; num_warps does not matter."),
        ("PFF", WARPS, ("num_warps",), "It fails exactly for num_warps=8 or 16."),
        ("PFFPPP", DTYPE | WARPS, ("dtype", "num_warps"), "It fails exactly for dtype=f16 and num_warps=8 or 16."),
        ("FFFFFF", DTYPE | WARPS, (), "It fails for all values (dtype and num_warps)."),
        ("PPP", WARPS, (), "No case has this failure."),
        ("UFP", WARPS, ("num_warps",), "It fails exactly for num_warps=8. 1 of 3 cannot be tested."),
        ("FXP", WARPS, ("num_warps",), "It fails exactly for num_warps=4. 1 of 3 fail in another way."),
        (
            "FPPF",
            DTYPE | {"n": ["1", "2"]},
            ("dtype", "n"),
            "It fails in 2 of 4 cases, which no single combination of values describes.",
        ),
    ],
)
def test_the_deciding_keys(outcomes: str, axes: dict[str, list[str]], matters: tuple[str, ...], sentence: str) -> None:
    assert depends_on(grid(outcomes, **axes)) == (matters, sentence)


@pytest.mark.parametrize("outcomes", ["".join(letters) for letters in product("FP", repeat=6)])
def test_exactly_means_exactly(outcomes: str) -> None:
    observed = grid(outcomes, **DTYPE, **WARPS)
    matters, sentence = depends_on(observed)
    if "exactly" in sentence:
        failing = [choice for choice, what in observed if what is F]
        values = {key: {choice[key] for choice in failing} for key in matters}
        for choice, what in observed:
            assert (what is F) == all(choice[key] in values[key] for key in matters)
    for key in {"dtype", "num_warps"} - set(matters):
        for (one, what), (other, then) in product(observed, observed):
            if all(one[name] == other[name] for name in one if name != key) and "No case" not in sentence:
                assert (what is F) == (then is F)


def test_own_values_come_first() -> None:
    case = replace(a_case(), input=replace(a_case().input, args=(("n", "8"),)))
    cases = varied(case, {"n": ("16", "8"), "devices": ("1", "2")})
    assert [one.matrix for one in cases] == [
        (("n", n), ("devices", devices)) for n in ("8", "16") for devices in ("1", "2")
    ]  # fmt: skip
    assert [one.input.args for one in cases] == [(("n", "8"),)] * 2 + [(("n", "16"),)] * 2
    assert cases[1].target.devices == 2
    assert len({one.name for one in cases}) == 4


def test_kernel_options_keep_their_type() -> None:
    case = replace(a_case(spec=KernelSpec(None, {}, {"M": 64}, {}, {"num_warps": 4})), compiler="triton")
    cases = varied(case, {"num_warps": ("8",), "M": ("32",)})
    made = [one.spec for one in cases]
    assert [(how.options, how.constexprs) for how in made if isinstance(how, KernelSpec)] == [
        ({"num_warps": warps}, {"M": m}) for warps in (4, 8) for m in (64, 32)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "axes, says",
    [
        ({"nothing": ("1",)}, "nothing"),
        ({"devices": ("none",)}, "devices=none"),
        ({"backend": ("cuda",), "chip": ("sm_80",), "args.backend": ("x",), "x": ("1",)}, "ambiguous"),
        ({"chip": tuple(map(str, range(65)))}, "64"),
    ],
)
def test_bad_keys_and_values(axes: dict[str, tuple[str, ...]], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        varied(replace(a_case(), input=replace(a_case().input, args=(("backend", "x"),))), axes)


def test_a_full_name_is_never_ambiguous() -> None:
    case = replace(a_case(), input=replace(a_case().input, args=(("devices", "8"),)))
    assert [one.input.args[0][1] for one in varied(case, {"args.devices": ("2",)})] == ["8", "2"]
    assert [one.target.devices for one in varied(case, {"target.devices": ("2",)})] == [2]


def test_of_a_large_matrix_only_neighbours_are_compared() -> None:
    cases = [a_case(matrix=(("a", str(a)), ("b", str(b)))) for a in range(10) for b in range(10)]
    near = neighbourhood(cases[0], cases)
    assert len(near) == 19
    assert all(len(differences(cases[0], one)) <= 1 for one in near)


def compared(behaviour: dict[str, Outcome], about: str | None = None) -> dict[str, object]:
    cases = [replace(a_case(f"--n={n}"), name=f"m[n={n}]", matrix=(("n", n),)) for n in behaviour]
    runner = FlagRunner(lambda flags, name: behaviour[next(iter(flags)).partition("=")[2]])
    chosen = next((one for one in cases if one.name == about), None)
    return as_json(VariantsReport(compare_variants(runner, cases, a_place(), chosen)).shape())  # type: ignore[arg-type]


def test_the_sentence_is_about_the_given_case() -> None:
    behaviour = {"1": failed("segfault"), "2": failed(), "3": Compiled(), "4": Untestable(Cause.FLAG, "no")}
    answer = compared(behaviour)
    assert answer["sentence"] == "It fails exactly for n=1. 1 of 4 fail in another way and 1 of 4 cannot be tested."
    assert [one["values"]["n"] for one in answer["results"]] == ["1", "2", "3", "4"]  # type: ignore[attr-defined]
    assert "n=2" in str(compared(behaviour, "m[n=2]")["sentence"])
    answer = compared(behaviour, "m[n=3]")
    assert (answer["failure"], answer["sentence"]) == (None, "m[n=3] does not fail.")
