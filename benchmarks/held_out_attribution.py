"""Whether `triage attribute` names the right pass, over pairs of releases and programs that it was not written with.

    python -m benchmarks.held_out_attribution [--set 1 2]

The pairs stand in held_out_pairs.yaml, drawn by chance by held_out_pairs.py. The right answer is found without triage:
held_out_crossfeed.py finds the phase that makes the first lasting difference, then both compilers do that phase from the same
input, and held_out_states.py finds the pass after which the plain counts of operations are never the same again.

Rule, set before the first run: an answer is right where its pass is that pass, on either side of the pair. `phase` tells
apart those whose phase alone agrees; they count as wrong. Pairs whose phases the other release cannot read, so that more than
one phase is possible, and those that part nowhere by either judge, are told and counted apart.
"""

from __future__ import annotations

import argparse
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.held_out_crossfeed import Judged, judged
from benchmarks.held_out_remedies import case_of
from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import Attribution
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeRunner
from triage.model.outcome import Failed

NEITHER = "both say that nothing parts"
PAIRS = Path(__file__).with_name("held_out_pairs.yaml")


def verdict(told: Attribution, found: Judged) -> str:
    if found.unread:
        return "not judged"
    if found.lasting is None or not any(found.lasting_passes):
        return "not judged" if found.lasting or told.passes else NEITHER
    if not told.passes:
        return "wrong"
    if _named(told, found.lasting_passes):
        return "right"
    return "phase" if told.first_phase == found.lasting else "wrong"


def decides(told: Attribution, found: Judged) -> str:
    """The same for what decides the failure, which may be a later difference than the first."""
    if found.deciding is None or found.undecided or not any(found.deciding_passes):
        return "not judged"
    every = {name.removesuffix("Pass") for name in told.passes}
    if _named(told, found.deciding_passes):
        return "right"
    return "then" if any(every & names for names in found.deciding_passes) else "wrong"


def _named(told: Attribution, passes: tuple[frozenset[str], ...]) -> bool:
    return bool(told.passes) and any(told.passes[0].removesuffix("Pass") in names for names in passes)


def ask(bench: ProbeRunner, entry: dict[str, Any]) -> tuple[str, str, str, bool]:
    with TemporaryDirectory() as folder:
        case = case_of(entry, Path(folder))
        places = tuple(bench.registry.resolve(str(entry[side]), "iree") for side in ("good", "bad"))
        told = attribute(bench, case, *places, depth=Depth(excerpts=False))
        toolchains = tuple(bench.registry.obtain(place) for place in places)
        fails = isinstance(told.bad.outcome, Failed)
        found = judged(case, toolchains, Path(folder), fails=fails)
    right, deciding = verdict(told, found), decides(told, found)
    phase = told.first_phase or (told.failure.phase if told.failure else None)
    answer = f"{phase}: {' then '.join(told.passes)}" if told.passes else f"{told.status} {told.reason or ''}"
    text = f"{case.name} {' '.join(entry.get('flags', []))} {entry['good']} -> {entry['bad']}: {right}\n"
    text += f"  {'fails' if fails else 'differs'}; {told.status}; triage: {answer}\n"
    text += f"  first lasting: {found.lasting}: {_shown(found.lasting_passes)}\n"
    if fails:
        text += f"  decides ({deciding}): {found.deciding}: {_shown(found.deciding_passes)}\n"
    if found.unread:
        text += f"  not read by the other release: {', '.join(found.unread)}\n"
    return text, right, deciding, fails


def _shown(passes: tuple[frozenset[str], ...]) -> str:
    return "; ".join(dict.fromkeys(" or ".join(sorted(names)) for names in passes)) or "not found"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--set", type=int, nargs="+", help="the numbers of the sets; all where none is given")
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    pairs = [one for one in yaml.safe_load(options.pairs.read_text()) if not options.set or one["set"] in options.set]
    verdicts: dict[int, list[tuple[str, str, bool]]] = {}

    def one_of(entry: dict[str, Any]) -> tuple[str, str, str, bool]:
        try:
            return ask(bench, entry)
        except Exception:  # one pair shall not end the others
            return f"{entry}\n{traceback.format_exc()}", "not judged", "not judged", False

    with open_runner(AppContext(quiet=True), (), options.jobs) as bench, ThreadPoolExecutor(2) as pool:
        for entry, (text, *rest) in zip(pairs, pool.map(one_of, pairs), strict=True):
            print(f"set {entry['set']}: {text}", flush=True)
            verdicts.setdefault(entry["set"], []).append((rest[0], rest[1], rest[2]))
    for number, found in sorted(verdicts.items()):
        for what, counts in (
            ("the first lasting difference", Counter(right for right, _, _ in found)),
            ("what decides the failure", Counter(deciding for _, deciding, fails in found if fails)),
        ):
            total = counts.total() - counts["not judged"] - counts[NEITHER]
            share = counts["right"] / (total or 1)
            rest_of = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if name != "right")
            print(f"set {number}, {what}: right {counts['right']} of {total} ({share:.0%}); {rest_of}")


if __name__ == "__main__":
    main()
