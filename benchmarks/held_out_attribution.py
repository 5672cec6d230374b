"""Measure whether `triage attribute` names the right pass over pairs of releases.

    python -m benchmarks.held_out_attribution [--set 1 2]

held_out_pairs.yaml holds the pairs: random programs, targets and neighbouring releases. held_out_oracle.py finds the right pass
without triage; its answers are cached in TRIAGE_HOME. An answer is right if it names that pass of either side; `phase` counts
answers where only the phase agrees. Pairs without a unique answer of the oracle are not judged.
"""

from __future__ import annotations

import argparse
import math
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from pydantic import TypeAdapter

from benchmarks import held_out_oracle
from benchmarks.held_out_oracle import OracleAnswer, oracle_answer
from benchmarks.held_out_remedies import case_of
from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import Attribution
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Failed
from triage.model.revision import Toolchain

NEITHER = "neither finds a divergence"
ANSWER = TypeAdapter(OracleAnswer)
ORACLE = Path(held_out_oracle.__file__).read_text()
PAIRS = Path(__file__).with_name("held_out_pairs.yaml")


def verdict(answer: Attribution, truth: OracleAnswer) -> str:
    if truth.unread:
        return "not judged"
    if truth.persistent is None or not any(truth.persistent_passes):
        return "not judged" if truth.persistent or answer.passes else NEITHER
    if not answer.passes:
        return "wrong"
    if _named(answer, truth.persistent_passes):
        return "right"
    return "phase" if answer.first_phase == truth.persistent else "wrong"


def decides(answer: Attribution, truth: OracleAnswer) -> str:
    """Judge the pass that decides the failure, which may differ after the first difference."""
    if truth.deciding is None or truth.undecided or not any(truth.deciding_passes):
        return "not judged"
    every = {name.removesuffix("Pass") for name in answer.passes}
    if _named(answer, truth.deciding_passes):
        return "right"
    return "then" if any(every & names for names in truth.deciding_passes) else "wrong"


def _named(answer: Attribution, passes: tuple[frozenset[str], ...]) -> bool:
    return bool(answer.passes) and any(answer.passes[0].removesuffix("Pass") in names for names in passes)


def cached_oracle_answer(
    runner: ProbeRunner, case: Case, toolchains: tuple[Toolchain, Toolchain], folder: Path, *, fails: bool
) -> OracleAnswer:
    """Ask the oracle, or return what this version of it answered before about the same program and compilers."""
    known = (
        ORACLE,
        case.input.path.read_text(),
        case.target,
        case.flags,
        [toolchain.identity for toolchain in toolchains],
        fails,
    )
    key = sha256(repr(known).encode()).hexdigest()
    cache = runner.registry.workspace.state.section("held-out oracle")
    if stored := cache.get(key):
        return ANSWER.validate_python(stored)
    answer = oracle_answer(case, toolchains, folder, fails=fails)
    cache.put(key, ANSWER.dump_python(answer, mode="json"))
    return answer


def ask(runner: ProbeRunner, entry: dict[str, Any]) -> tuple[str, str, str, bool]:
    with TemporaryDirectory() as folder:
        case = case_of(entry, Path(folder))
        good, bad = (runner.registry.resolve(str(entry[side]), "iree") for side in ("good", "bad"))
        answer = attribute(runner, case, good, bad, depth=Depth(phases=False, excerpts=False))
        toolchains = (runner.registry.obtain(good), runner.registry.obtain(bad))
        fails = isinstance(answer.bad.outcome, Failed)
        truth = cached_oracle_answer(runner, case, toolchains, Path(folder), fails=fails)
        if verdict(answer, truth) == "wrong":  # does its phase agree?
            answer = attribute(runner, case, good, bad, depth=Depth(excerpts=False))
    right, deciding = verdict(answer, truth), decides(answer, truth)
    phase = answer.first_phase or answer.phase
    passes = f"{phase}: {' then '.join(answer.passes)}" if answer.passes else answer.reason or "no divergence"
    text = f"{case.name} {' '.join(entry.get('flags', []))} {entry['good']} -> {entry['bad']}: {right}\n"
    text += f"  {'fails' if fails else 'differs'}; {answer.status}; triage: {passes}\n"
    text += f"  first persistent: {truth.persistent}: {_shown(truth.persistent_passes)}\n"
    if fails:
        text += f"  decides ({deciding}): {truth.deciding}: {_shown(truth.deciding_passes)}\n"
    if truth.unread:
        text += f"  not readable by the other release: {', '.join(truth.unread)}\n"
    return text, right, deciding, fails


def _shown(passes: tuple[frozenset[str], ...]) -> str:
    return "; ".join(dict.fromkeys(" or ".join(sorted(names)) for names in passes)) or "not found"


def interval(right: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson)."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, right / total
    middle, scale = share + z * z / (2 * total), 1 + z * z / total
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return (middle - spread) / scale, (middle + spread) / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--set", type=int, nargs="+", help="numbers of the sets (default: all)")
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    pairs = [entry for entry in yaml.safe_load(options.pairs.read_text()) if not options.set or entry["set"] in options.set]
    verdicts: dict[int, list[tuple[str, str, bool]]] = {}

    def ask_safely(entry: dict[str, Any]) -> tuple[str, str, str, bool]:
        try:
            return ask(runner, entry)
        except Exception:  # the other pairs go on
            return f"{entry}\n{traceback.format_exc()}", "not judged", "not judged", False

    with open_runner(AppContext(quiet=True), (), options.jobs) as runner, ThreadPoolExecutor(options.jobs or 2) as pool:
        for entry, (text, *rest) in zip(pairs, pool.map(ask_safely, pairs), strict=True):
            print(f"set {entry['set']}: {text}", flush=True)
            verdicts.setdefault(entry["set"], []).append((rest[0], rest[1], rest[2]))
    for number, found in sorted(verdicts.items()):
        for what, counts in (
            ("the first persistent difference", Counter(right for right, _, _ in found)),
            ("the pass that decides the failure", Counter(deciding for _, deciding, fails in found if fails)),
        ):
            total = counts.total() - counts["not judged"] - counts[NEITHER]
            share, (low, high) = counts["right"] / (total or 1), interval(counts["right"], total)
            rest_of = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if name != "right")
            print(f"set {number}, {what}: right {counts['right']} of {total} ({share:.0%}, {low:.0%}-{high:.0%}); {rest_of}")


if __name__ == "__main__":
    main()
