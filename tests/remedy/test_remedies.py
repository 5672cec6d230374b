"""Remedies are searched with a compiler that is a function of its flags."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.fake_engine import FakeEngine
from triage.compilers.kernel import KernelSpec
from triage.execution.task import ProbeJob
from triage.model.case import Case, Flag, Target
from triage.model.errors import Interrupted
from triage.model.fields import as_json
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
)
from triage.model.revision import Capabilities, Revision
from triage.remedy.candidates import (
    ChangedCase,
    RemedyRequest,
    Situation,
    compiler_options,
    known_remedies,
)
from triage.remedy.result import Remedies
from triage.remedy.search import find_remedies
from triage.remedy.variants import compare_variants
from triage.toolchains.registry import ToolchainRef

SWITCHES = [
    "iree-codegen-llvmgpu-use-igemm",
    "iree-codegen-llvmgpu-test-tile-and-fuse-vectorize",
    "iree-codegen-new-thing",
    "iree-codegen-dump-everything",
    "iree-opt-data-tiling",
    "iree-llvmcpu-disable-distribution",
    "iree-dispatch-creation-fuse-multi-use",
    "iree-stream-emulate-memset",
]
FLAGS = [*SWITCHES, "iree-opt-level", "iree-stream-affinity-solver-max-iterations"]
KNOWN = Capabilities(flags=frozenset(FLAGS), switches=frozenset(SWITCHES))
LIMIT = "--iree-stream-affinity-solver-max-iterations"
IGEMM = "--iree-codegen-llvmgpu-use-igemm=false"
TILE = "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true"


def failed(name: str = "shared-memory-overflow") -> Failed:
    return Failed(Failure(name, name, name, f"{name}!"))


def case_with(*flags: str, backend: str = "rocm", **more: Any) -> Case:
    target, given = Target(backend, "gfx942"), tuple(map(Flag, flags))
    return replace(case_named("m"), target=target, flags=given, **more)


def release(name: str) -> ToolchainRef:
    return ToolchainRef("iree", Revision(name))


BAD, GOOD = release("3.3.0"), release("3.2.0")


def engine_of(
    behaviour: Callable[[frozenset[str], str], Outcome],
    newest: str = "",
    seconds: Callable[[frozenset[str]], float] = lambda _: 0.0,
) -> Any:
    """Return an engine whose compiler is a function of its flags and its release."""

    def flags(job: ProbeJob) -> frozenset[str]:
        return frozenset(flag.text for flag in job.case.flags)

    return FakeEngine(
        lambda job: behaviour(flags(job), job.ref.revision.name),
        [newest] if newest else [],
        jobs=2,
        capabilities=KNOWN,
        measure=lambda job: Measured(
            cpu_seconds=seconds(flags(job)),
            metrics={"dispatches": 4.0 + len(flags(job))},
        ),
    )


def candidates(case: Case, name: str = "shared-memory-overflow") -> list[ChangedCase]:
    """Return the known remedies of a failure, then the compiler's own options."""
    engine = engine_of(lambda *_: failed())
    situation = Situation(engine, RemedyRequest(case, BAD), failed(name).failure)
    return [*known_remedies(situation), *compiler_options(situation)]


def texts(backend: str) -> list[str]:
    return [each.change.text for each in candidates(case_with(backend=backend))]


def test_flags_of_other_backends_are_never_tried_and_near_switches_come_first() -> None:
    on_cpu, on_gpu = texts("llvm-cpu"), texts("rocm")
    assert not [text for text in on_cpu if "llvmgpu" in text]
    assert "--iree-llvmcpu-disable-distribution=true" in on_cpu
    unwanted = ("llvmcpu", "dump", "stream", "vectorize=false")
    assert not [text for text in on_gpu if any(word in text for word in unwanted)]
    names = (
        "opt-level=O3",
        "opt-data-tiling=false",
        "codegen-llvmgpu-use-igemm=true",
        "codegen-new-thing=false",
        "dispatch-creation-fuse-multi-use=false",
    )
    order = [on_gpu.index(f"--iree-{name}") for name in names]
    assert order == sorted(order)


def test_kernel_options_are_input_changes() -> None:
    kernel = KernelSpec(None, {}, {}, {}, {"num_warps": 8, "num_stages": 3})
    case = replace(case_with(spec=kernel), compiler="triton")
    tried = {
        each.change.input_change: each.case.spec
        for each in candidates(case, "assertion")
    }
    assert "num_warps=8" not in tried
    launched = tried["num_warps=4"]
    assert isinstance(launched, KernelSpec)
    assert launched.options == {"num_warps": 4, "num_stages": 3}


def searched(engine: Any, **more: Any) -> Remedies:
    """Find remedies. more: of the request."""
    return find_remedies(engine, RemedyRequest(case_with(), **{"bad": BAD} | more))


def flags_of(answer: Remedies) -> list[str]:
    return [" ".join(remedy.flags) for remedy in answer.remedies]


def test_the_whole_first_tier_is_tried_and_a_flag_for_users_comes_first() -> None:
    engine = engine_of(
        lambda flags, _: Passed() if flags & {IGEMM, TILE} else failed(),
        seconds=lambda flags: 0.5 if TILE in flags else 8.0,
    )
    assert flags_of(searched(engine)) == [IGEMM, TILE]


@pytest.mark.parametrize(
    ("limit", "tried", "cause"),
    [({"budget": 12}, 12, Cause.NOT_FOUND), ({"seconds": -1.0}, 0, Cause.TIME)],
)
def test_budget_and_time_limit_the_candidates(
    limit: dict[str, float], tried: int, cause: Cause
) -> None:
    engine = engine_of(lambda *_: failed())
    answer = searched(engine, **limit)
    assert (answer.tried, answer.cause, answer.remedies) == (tried, cause, ())
    assert len(engine.asked) == 1 + tried
    assert answer.left > 0
    assert f"{tried} of {tried + answer.left} candidates" in str(answer.reason)


def test_a_remedy_that_breaks_another_release_ranks_last() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if name != "3.3.0" and IGEMM in flags:
            return NoAnswer(Cause.FLAG, "does not know it")
        return Passed() if name != "3.3.0" or flags & {IGEMM, TILE} else failed()

    answer = as_json(searched(engine_of(behaviour, "3.13.0"), good=GOOD))
    first, last = answer["remedies"]
    names = [
        [revision["name"] for revision in remedy[key]]
        for remedy in (first, last)
        for key in ("flags", "verified_on", "breaks")[1:]
    ]
    assert (first["flags"], last["flags"]) == ([TILE], [IGEMM])
    assert names == [["3.3.0", "3.2.0", "3.13.0"], [], ["3.3.0"], ["3.2.0", "3.13.0"]]
    assert last["cost"]["dispatches"] == 5


@pytest.mark.parametrize(("bad", "upgrade"), [("3.3.0", "3.13.0"), ("3.14.0rc1", None)])
def test_an_upgrade_is_a_remedy_also_if_no_flag_works(
    bad: str, upgrade: str | None
) -> None:
    engine = engine_of(lambda _, name: failed() if name == bad else Passed(), "3.13.0")
    answer = searched(engine, bad=release(bad))
    assert answer.remedies == ()
    assert (answer.upgrade and answer.upgrade.name) == upgrade


@pytest.mark.parametrize(
    "outcome",
    [Passed(), NoAnswer(Cause.INPUT, "", failed("parse-error").failure)],
)
def test_a_case_that_does_not_fail_has_nothing_to_remedy(outcome: Outcome) -> None:
    engine = engine_of(lambda *_: outcome)
    answer = searched(engine)
    assert (answer.failure, answer.remedies, answer.tried) == (None, (), 0)
    assert len(engine.asked) == 1


@pytest.mark.parametrize("checked_on", ["3.2.0", "3.3.0"])
def test_remedies_that_were_found_outlive_the_end_of_the_time(
    checked_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        nonlocal now
        if name == "3.2.0" or (checked_on == name and len(engine.asked) > 8):
            now += 10
            raise Interrupted("stopped")
        return Passed() if IGEMM in flags else failed()

    monkeypatch.setattr(time, "monotonic", lambda: now)
    engine = engine_of(behaviour)
    assert flags_of(searched(engine, good=GOOD, seconds=5)) == [IGEMM]
    with pytest.raises(Interrupted):  # Ctrl-C
        searched(engine, good=GOOD)


@pytest.mark.parametrize(("needed", "value"), [(33, 64), (65536, 65536)])
def test_the_first_value_that_works_is_found(needed: int, value: int) -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        values = [int(text.rpartition("=")[2]) for text in flags if LIMIT in text]
        enough = any(number >= needed for number in values)
        return Passed() if enough else failed("affinity-non-convergence")

    assert flags_of(searched(engine_of(behaviour))) == [f"{LIMIT}={value}"]


WARPS = {"num_warps": "4 8 16"}
OUTCOMES = {
    "P": Passed(),
    "F": failed(),
    "X": failed("segfault"),
    "U": NoAnswer(Cause.FLAG, ""),
}


@pytest.mark.parametrize(
    ("letters", "axes", "about", "sentence"),
    [
        (
            "PFFPPP",
            {"dtype": "f16 f8"} | WARPS,
            None,
            "It fails exactly for dtype=f16 and num_warps=8 or 16.",
        ),
        (
            "UFP",
            WARPS,
            None,
            "It fails exactly for num_warps=8; 1 of 3 cannot be tested.",
        ),
        (
            "FPPF",
            {"dtype": "f16 f8", "n": "1 2"},
            None,
            "It fails in 2 of 4 cases, which no single combination of values describes.",
        ),
        # of the first case that fails, and of the one that is asked about
        (
            "XFP",
            WARPS,
            None,
            "It fails exactly for num_warps=4; 1 of 3 fail in another way.",
        ),
        (
            "XFP",
            WARPS,
            1,
            "It fails exactly for num_warps=8; 1 of 3 fail in another way.",
        ),
        ("XFP", WARPS, 2, "2 does not fail."),
    ],
)
def test_the_values_that_a_failure_depends_on(
    letters: str, axes: dict[str, str], about: int | None, sentence: str
) -> None:
    rows = product(*(values.split() for values in axes.values()))
    cases = [
        replace(
            case_with(str(number)),
            name=str(number),
            matrix=tuple(zip(axes, row, strict=True)),
        )
        for number, row in enumerate(rows)
    ]
    engine = engine_of(lambda flags, _: OUTCOMES[letters[int(min(flags))]])
    chosen = None if about is None else cases[about]
    answer = compare_variants(engine, cases, BAD, chosen)
    assert answer.sentence == sentence
    assert answer.depends_on == (tuple(axes) if answer.failure else ())
