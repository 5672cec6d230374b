"""Simulated nights: cases with failures that come and go, flaky ones, and measured
times with steps. Nothing is compiled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta

from triage.investigate.result import CaseChangeKind, CaseResult
from triage.model.case import Target
from triage.model.execution import Stage
from triage.model.outcome import Failure, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.result import SCHEMA, Night
from triage.nightly.run import clusters_of

BACKENDS = ("llvm-cpu", "vulkan-spirv", "cuda", "rocm")
_OPERATORS = (
    "conv",
    "matmul",
    "softmax",
    "layer_norm",
    "attention",
    "gather",
    "reduce_max",
    "resize",
    "quantize",
    "pad",
)
_CLASSES = {
    "legalize": "failed to legalize operation 'torch.operator' that was explicitly marked illegal",
    "segfault": "ended by SIGSEGV",
    "shared-memory-overflow": "shared memory usage (281600 bytes) exceeds the limit (65536 bytes)",
    "wrong-result": "result 0, element [3, 7] is 1.25, expected 1.5",
    "timeout": "stopped after 120 s",
}


_BASELINE = Revision("3.9.0", "e" * 40, "2025-11-20")


def simulated_nights(cases: int, nights: int, seed: int = 1) -> Iterator[Night]:
    """Yield nights from the oldest to the newest. About 4 % of the cases fail at some
    time, 0.5 % are flaky.
    """
    source = random.Random(seed)
    names = [
        f"onnx_ops/{source.choice(_OPERATORS)}_{number:05d}" for number in range(cases)
    ]
    backends = [source.choice(BACKENDS) for _ in names]
    episodes = [_episodes(source, nights) for _ in names]
    levels = [source.lognormvariate(0, 1) for _ in names]
    steps = [
        source.randrange(nights) if source.random() < 0.02 else nights for _ in names
    ]
    flaky = [source.random() < 0.005 for _ in names]
    start = date(2026, 11, 21) - timedelta(days=nights - 1)
    for night in range(nights):
        day = start + timedelta(days=night)
        sha = f"{random.Random(night // 2).getrandbits(160):040x}"
        toolchain = Revision(f"3.10.0rc{day:%Y%m%d}", sha, str(day))
        results = []
        for number, name in enumerate(names):
            failure = next(
                (
                    kind
                    for first, last, kind in episodes[number]
                    if first <= night < last
                ),
                None,
            )
            if failure is None and flaky[number] and source.random() < 0.1:
                failure = _failure("timeout", 0)
            level = (
                levels[number]
                * (1.3 if night >= steps[number] else 1.0)
                * source.gauss(1, 0.02)
            )
            results.append(
                CaseResult(
                    case=name,
                    recipe=name,
                    suite="onnx_ops",
                    compiler="iree",
                    target=Target(backends[number]),
                    stages=[Stage.COMPILE],
                    change=CaseChangeKind.REGRESSED
                    if failure
                    else CaseChangeKind.PASSING,
                    status=Status.FAILED if failure else Status.PASSED,
                    stage=failure.stage if failure else Stage.COMPILE,
                    failure=failure,
                    toolchain=toolchain,
                    cpu_seconds=0.0 if failure else level,
                    baseline=_passed(name),
                )
            )
        yield Night(
            schema=SCHEMA,
            started=f"{day}T02:00:00+00:00",
            compiler="iree",
            toolchain=toolchain,
            baseline=_BASELINE,
            kind=ToolchainKind.NIGHTLY,
            seconds=3600.0 + source.gauss(0, 60),
            cases=results,
            clusters=clusters_of(results),
        )


def _passed(name: str) -> ProbeResult:
    return ProbeResult(
        case=name, recipe=name, toolchain=_BASELINE, status=Status.PASSED
    )


def _episodes(source: random.Random, nights: int) -> list[tuple[int, int, Failure]]:
    if source.random() > 0.04:
        return []
    first = source.randrange(-nights // 4, nights)
    last = first + int(source.expovariate(1 / 40)) + 1
    return [(first, last, _failure(source.choice(sorted(_CLASSES)), first // 5))]


def _failure(name: str, root: int) -> Failure:
    return Failure(
        name,
        name,
        f"{name}:pass{root % 100}" if root else name,
        _CLASSES[name],
        phase="executable-targets",
        stage=Stage.COMPARE if name == "wrong-result" else Stage.COMPILE,
    )
