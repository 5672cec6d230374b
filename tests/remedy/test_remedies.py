"""Remedies are searched with a compiler that is a function of its flags."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bisect.letters import case_named
from tests.fake_engine import FakeEngine
from triage.compilers.base import KernelSpec
from triage.execution.task import ProbeJob
from triage.model.case import Case, Flag, Target
from triage.model.errors import Interrupted
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
    more = {"target": Target(backend, "gfx942"), **more}
    return replace(case_named("m"), flags=tuple(map(Flag, flags)), **more)


def release(name: str) -> ToolchainRef:
    return ToolchainRef("iree", Revision(name))


BAD, GOOD = release("3.3.0"), release("3.2.0")


def engine_of(
    behaviour: Callable[[frozenset[str], str], Outcome],
    newest: str = "",
) -> Any:
    """Return an engine whose compiler is a function of its flags and its release. With
    TILE, it is fast.
    """

    def flags(job: ProbeJob) -> frozenset[str]:
        return frozenset(flag.text for flag in job.case.flags)

    return FakeEngine(
        lambda job: behaviour(flags(job), job.ref.revision.name),
        [newest] if newest else [],
        jobs=2,
        capabilities=KNOWN,
        measure=lambda job: Measured(
            cpu_seconds=0.5 if TILE in flags(job) else 8.0,
            metrics={"dispatches": 4.0 + len(flags(job))},
        ),
    )


def candidates(case: Case, name: str = "shared-memory-overflow") -> list[ChangedCase]:
    """Return the known remedies of a failure, then the compiler's own options."""
    situation = Situation(engine_of(lambda *_: failed(name)), case, BAD)
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
    tried: dict[Any, Any] = {
        each.change.input_change: each.case.spec
        for each in candidates(case, "assertion")
    }
    assert "num_warps=8" not in tried
    assert tried["num_warps=4"].options == {"num_warps": 4, "num_stages": 3}


def test_another_file_or_chip_is_no_remedy() -> None:
    def sibling(chip: str = "gfx942", **matrix: str) -> Case:
        keys = {"dtype": "f16", "chip": chip, "file": "a", **matrix}
        target = Target("rocm", chip)
        return case_with(matrix=tuple(keys.items()), target=target)

    others = [sibling(dtype="f8"), sibling(file="b"), sibling("gfx1201")]
    situation = Situation(
        engine_of(lambda *_: failed()), sibling(), BAD, siblings=others
    )
    tried = [each.change.input_change for each in known_remedies(situation)]
    assert [text for text in tried if text] == ["dtype=f8"]


def searched(
    engine: Any,
    bad: ToolchainRef = BAD,
    good: ToolchainRef | None = None,
    **limits: Any,
) -> Remedies:
    """Find remedies. limits: a budget, or seconds."""
    return find_remedies(Situation(engine, case_with(), bad, good), **limits)


def flags_of(answer: Remedies) -> list[str]:
    return [" ".join(remedy.flags) for remedy in answer.remedies]


def test_the_whole_first_tier_is_tried_and_a_flag_for_users_comes_first() -> None:
    engine = engine_of(lambda flags, _: Passed() if flags & {IGEMM, TILE} else failed())
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
    assert re.match(rf"{tried} of [1-9]\d+ candidates", str(answer.reason))


def names(revisions: Iterable[Revision]) -> str:
    return " ".join(revision.name for revision in revisions)


def test_a_remedy_that_breaks_another_release_ranks_last() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if name != "3.3.0" and IGEMM in flags:
            return NoAnswer(Cause.FLAG, "does not know it")
        return Passed() if name != "3.3.0" or flags & {IGEMM, TILE} else failed()

    answer = searched(engine_of(behaviour, "3.13.0"), good=GOOD)
    assert [
        (*remedy.flags, names(remedy.verified_on), names(remedy.breaks))
        for remedy in answer.remedies
    ] == [(TILE, "3.3.0 3.2.0 3.13.0", ""), (IGEMM, "3.3.0", "3.2.0 3.13.0")]
    assert answer.remedies[-1].cost["dispatches"] == 5


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
        is_enough = max(values, default=0) >= needed
        return Passed() if is_enough else failed("affinity-non-convergence")

    assert flags_of(searched(engine_of(behaviour))) == [f"{LIMIT}={value}"]


OUTCOMES = {
    "P": Passed(),
    "F": failed(),
    "X": failed("segfault"),
    "U": NoAnswer(Cause.FLAG, ""),
}
VARIANTS = yaml.safe_load(Path(__file__).with_name("variants.yaml").read_text())


@pytest.mark.parametrize("row", VARIANTS)
def test_the_values_that_a_failure_depends_on(row: dict[str, Any]) -> None:
    keys, values = zip(*row["axes"].items(), strict=True)
    cases: dict[int | None, Case] = {}
    for number, words in enumerate(product(*map(str.split, values))):
        matrix = tuple(zip(keys, words, strict=True))
        case = case_with(str(number), matrix=matrix)
        cases[number] = replace(case, name=str(number))
    letters, chosen = row["letters"], cases.get(row.get("about"))
    engine = engine_of(lambda flags, _: OUTCOMES[letters[int(min(flags))]])
    answer = compare_variants(engine, [*cases.values()], BAD, chosen)
    assert answer.sentence == row["sentence"]
    assert answer.depends_on == (keys if answer.failure else ())
