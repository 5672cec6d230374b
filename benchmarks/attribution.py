"""Count how often `triage attribute` names the right pass on pairs of releases of IREE.

Run: `python -m benchmarks.attribution`, with the releases installed. The pairs of
`attribution.yaml` were drawn at random. What is right was found
without triage: one compiler was fed what the other made, phase by phase, and in the
first phase that matters operations were counted after each pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.common import TRIAGE, cost_of

PAIRS = Path(__file__).with_suffix(".yaml")


def named(pair: dict[str, Any], program: str) -> list[str]:
    """Return the passes that `triage attribute` names, the likeliest first."""
    with TemporaryDirectory() as folder:
        source = Path(folder, "program.mlir")
        source.write_text(program)
        backend, _, chip = pair["target"].partition(" ")
        recipe = {
            "name": pair["program"],
            "compiler": "iree",
            "input": source.name,
            "target": {"backend": backend} | ({"chip": chip} if chip else {}),
            "flags": pair.get("flags", []),
            "phase": "executable-targets",
        }
        path = Path(folder, "recipe.yaml")
        path.write_text(json.dumps(recipe))
        ends = ["--good", pair["good"], "--bad", pair["bad"], "--format", "json"]
        command = [*TRIAGE, "attribute", str(path), *ends]
        answer = json.loads(cost_of(command, codes=(0, 3)).stdout)
        return [name.removesuffix("Pass") for name in answer["suspect_passes"]]


def main() -> None:
    """Print a line for each pair, and the sum."""
    data = yaml.safe_load(PAIRS.read_text())
    right = second = 0
    for pair in data["pairs"]:
        names = named(pair, data["programs"][pair["program"]])
        is_right = [name in pair["right"] for name in names[:2]]
        right += is_right[:1] == [True]
        second += is_right == [False, True]
        title = f"{pair['program']} {pair['target']} {pair['good']} {pair['bad']}"
        verdict = "right" if is_right[:1] == [True] else "wrong"
        print(f"{verdict} {title}: {', '.join(names) or 'no pass'}", flush=True)
    print(f"{right} of {len(data['pairs'])} right, {second} as second candidate")


if __name__ == "__main__":
    main()
