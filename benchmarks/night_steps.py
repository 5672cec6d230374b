"""Compare searches for steps on simulated series of measured times: ruptures as `triage site` uses it, and apache-otava.

Run: `uv run --with apache-otava --with ruptures python -m benchmarks.night_steps [--series 100]`. A series has 365 nights with
2 % of noise: `normal`, `spiky` (a twentieth of the nights is 20 to 50 % slower) or `wandering` (each night follows the one
before). A step counts as found within three nights; other steps are false.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from triage.nights.steps import find_steps

NIGHTS, LEAST = 365, 0.02
KINDS = ("normal", "spiky", "wandering")
STEPS = ((0.0, None), (0.03, None), (0.05, None), (0.1, None), (0.1, NIGHTS - 7))


def series(source: np.random.Generator, kind: str, step: float, at: int) -> Any:
    noise = source.normal(0, 0.02, NIGHTS)
    if kind == "spiky":
        spikes = source.random(NIGHTS) < 0.05
        noise[spikes] += source.uniform(0.2, 0.5, spikes.sum())
    if kind == "wandering":
        for night in range(1, NIGHTS):
            noise[night] = 0.6 * noise[night - 1] + 0.8 * noise[night]
    noise[at:] += np.log1p(step)
    return 10 * np.exp(noise)


def searches() -> Mapping[str, Callable[[Any], list[int]]]:
    from otava.analysis import compute_change_points  # type: ignore[import-not-found,unused-ignore]

    def otava(values: Any, p: float) -> list[int]:
        points, _ = compute_change_points(list(map(float, values)), max_pvalue=p, min_magnitude=LEAST)
        return [point.index for point in points]

    def without_outliers(values: Any) -> Any:
        near = np.lib.stride_tricks.sliding_window_view(np.pad(values, 3, mode="edge"), 7)
        middle = np.median(near, axis=1)
        spread = 3 * 1.4826 * float(np.median(np.abs(np.diff(values)))) / 2**0.5
        return np.clip(values, middle - spread, middle + spread)

    return {
        "ruptures": lambda values: [step.at for step in find_steps(values[None, :], LEAST)],
        "otava, p 0.001": lambda values: otava(values, 1e-3),
        "otava, p 0.0001": lambda values: otava(values, 1e-4),
        "otava, p 0.0001, without outliers": lambda values: otava(without_outliers(values), 1e-4),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=100)
    count = parser.parse_args().series
    for kind in KINDS:
        for name, search in searches().items():
            source, cells, spent = np.random.default_rng(1), [], 0.0
            for step, where in STEPS:
                hits = others = 0
                for _ in range(count):
                    at = int(source.integers(20, NIGHTS - 20)) if where is None else where
                    values = series(source, kind, step, at)
                    started = time.process_time()
                    steps = search(values)
                    spent += time.process_time() - started
                    near = bool(step) and any(abs(night - at) <= 3 for night in steps)
                    hits += near
                    others += len(steps) - near
                cells.append(f"{step:.0%}{' last week' if where else ''}: {hits / count:.0%} found, {others / count:.2f} false")
            print(f"{kind}, {name}: {'; '.join(cells)}; {1000 * spent / count / len(STEPS):.1f} ms")


if __name__ == "__main__":
    main()
