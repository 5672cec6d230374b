"""Simulated nights: cases with failures that come and go, and measured times with
steps. Nothing is compiled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

from triage.investigate.result import CaseChangeKind, CaseResult
from triage.model.case import Target
from triage.model.execution import Stage
from triage.model.outcome import Failure, ProbeResult, Status
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.compare import clusters_of
from triage.nightly.result import Night
from triage.nightly.summary import SCHEMA

_BACKENDS = ("llvm-cpu", "vulkan-spirv", "cuda", "rocm")
_OPERATORS = ("conv", "matmul", "softmax", "layer_norm", "attention", "gather", "pad")
_HEADLINES = {
    "legalize": "failed to legalize operation 'torch.operator' that is illegal",
    "segfault": "ended by SIGSEGV",
    "shared-memory-overflow": "shared memory usage (281600 bytes) exceeds the limit",
    "timeout": "stopped after 120 s",
}
_BASELINE = Revision("3.9.0", "e" * 40, "2025-11-20")


def simulated_nights(cases: int, nights: int, seed: int = 1) -> Iterator[Night]:
    """Yield nights from the oldest to the newest. About 4 % of the cases fail at some
    time; 2 % become slower.
    """
    source = random.Random(seed)
    names = [f"{source.choice(_OPERATORS)}_{number:05d}" for number in range(cases)]
    backends = [source.choice(_BACKENDS) for _ in names]
    episodes = [_episode(source, nights) for _ in names]
    levels = [source.lognormvariate(0, 1) for _ in names]
    steps = [source.randrange(50 * nights) for _ in names]
    start = date(2026, 11, 21) - timedelta(days=nights - 1)
    for night in range(nights):
        day = start + timedelta(days=night)
        revision = Revision(f"3.10.0rc{day:%Y%m%d}", f"{night // 2:040x}", str(day))
        results = []
        for number, name in enumerate(names):
            begin, end, failure = episodes[number]
            seconds = levels[number] * source.gauss(1, 0.02)
            if night >= steps[number]:
                seconds *= 1.3
            result = CaseResult(
                case=name,
                recipe=name,
                suite="onnx_ops",
                compiler="iree",
                target=Target(backends[number]),
                stages=[Stage.COMPILE],
                change=CaseChangeKind.PASSING,
                status=Status.PASSED,
                stage=Stage.COMPILE,
                toolchain=revision,
                cpu_seconds=seconds,
                baseline=_passed(name),
            )
            if begin <= night < end:
                result = replace(
                    result,
                    change=CaseChangeKind.REGRESSED,
                    status=Status.FAILED,
                    failure=failure,
                    cpu_seconds=0.0,
                )
            results.append(result)
        yield Night(
            schema=SCHEMA,
            started=f"{day}T02:00:00+00:00",
            compiler="iree",
            toolchain=revision,
            baseline=_BASELINE,
            kind=ToolchainKind.NIGHTLY,
            seconds=3600.0,
            cases=results,
            clusters=clusters_of(results),
        )


def _passed(name: str) -> ProbeResult:
    return ProbeResult(
        case=name, recipe=name, toolchain=_BASELINE, status=Status.PASSED
    )


def _episode(source: random.Random, nights: int) -> tuple[int, int, Failure]:
    """Return the nights in which a case fails, none for most, and how."""
    begin = source.randrange(-nights // 4, nights)
    length = 1 + int(source.expovariate(1 / 40))
    if source.random() > 0.04:
        length = 0
    kind = source.choice(sorted(_HEADLINES))
    failure = Failure(kind, kind, f"{kind}:pass{begin % 20}", _HEADLINES[kind])
    return begin, begin + length, failure
