"""Reproducers built by hand, for tests of their folders, and an interestingness test
without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from tests.recipes.loading import load_recipes
from triage.compilers.repro_script import StandaloneCompile
from triage.model.case import Case
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Revision
from triage.processes.process import StopSignal
from triage.reduce.interestingness import CompileTest
from triage.reduce.problem import Pass, Program, ReductionProblem
from triage.reduce.reproducer import Reproducer
from triage.reduce.result import Reduction, SizeChange

[CASE] = load_recipes([Path(__file__).with_name("attention.yaml")])
PROGRAM = CASE.input.path.read_bytes()
OVERFLOW = Failure(
    "shared-memory-overflow",
    "gpu-resource",
    "shared-memory-overflow",
    "'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes",
    phase="executable-targets",
    location="input.mlir:2:3",
    details={"bytes_used": 286720, "bytes_limit": 65536},
    explanation="A dispatch was tiled, fused or promoted so that its buffers do not fit the workgroup (shared, LDS) memory of "
    "the target.",
)
OTHER = Failure(
    "verifier", "verifier", "verifier:stream.async", "'stream.async' op <bad>"
)


OUTCOMES: dict[str, Outcome] = {
    "P": Passed(),
    "F": Failed(OVERFLOW),
    "G": Failed(OTHER),
    "U": NoAnswer(Cause.FLAG, "does not know the flag --iree-y"),
}


def probes(letters: str, case: Case = CASE) -> tuple[Probe, ...]:
    """Return a probe for each letter, on versions 3.0.0, 3.1.0 and so on."""
    revisions = [
        Revision(f"3.{index}.0", f"{index:040x}") for index in range(len(letters))
    ]
    return tuple(
        Probe(case, revision, revision.name, OUTCOMES[letter], Measured(1.0))
        for revision, letter in zip(revisions, letters, strict=True)
    )


def reproducer(letters: str = "PUFFPG", case: Case = CASE) -> Reproducer:
    """The first version that fails is the one it was reduced on."""
    tried = probes(letters, case)
    bad = tried[letters.index("F")]
    return Reproducer(
        reduction=Reduction(
            small=case,
            failure=OVERFLOW,
            bad=bad.revision,
            good=Revision("3.0.0"),
            program=PROGRAM.decode(),
            sizes=SizeChange(740, 3),
            lines=SizeChange(900, 5),
            bytes=SizeChange(40_000, len(PROGRAM)),
            oracle_calls=44,
            seconds=31.26,
            probes=tried,
        ),
        compile=StandaloneCompile(
            case=case,
            source="input.mlir",
            program="iree-compile",
            options=(
                "--iree-hal-target-backends=rocm",
                "--iree-hip-target=gfx942",
                "--iree-x=a b",
            ),
            version=bad.version,
            packages=("iree-base-compiler==3.2.0",),
            failure_class=OVERFLOW.failure_class,
        ),
        file="input.mlir",
        ending="exit status 1",
        output="input.mlir:2:3: error: 'func.func' op uses 286720 bytes of shared memory\n  func.func @f(\n  ^\n",
        files={"input.mlir": PROGRAM},
    )


class FakeTest(CompileTest):
    """A test without a compiler. fails: whether a candidate shows the failure. passes:
    whether the good toolchain compiles it.
    """

    def __init__(
        self,
        fails: Callable[[Program], object],
        passes: Callable[[Program], object] = lambda _: True,
    ) -> None:
        self.fails, self.passes, self.asked = fails, passes, 0

    def is_interesting(
        self,
        candidate: Program,
        stop: StopSignal | None = None,
        *,
        in_full: bool = False,
    ) -> bool:
        self.asked += 1
        if in_full and not self.passes(candidate):
            return False
        return bool(self.fails(candidate))


def needs(text: bytes) -> FakeTest:
    """Return a test that fails on programs with a text."""
    return FakeTest(lambda candidate: text in candidate.content)


def lucky(luck: int, share: int) -> FakeTest:
    """Return a test that fails on a share of 256, always on the same programs."""

    def fails(candidate: Program) -> bool:
        words = repr((candidate.canonical, candidate.case.spec, luck)).encode()
        return sha256(words).digest()[0] < share

    return FakeTest(fails)


def reduced(program: Program, test: CompileTest, steps: Iterable[Pass]) -> Program:
    """Run passes. Each returns a valid program that is not larger, whatever the failure
    is.
    """
    problem = ReductionProblem(program, test)
    for step in steps:
        before = problem.current.size
        step(problem)
        assert problem.current.canonical is not None, step
        # An opened loop's variable gets its first value, which is one statement for
        # another.
        assert problem.current.size <= before, step
    return problem.current
