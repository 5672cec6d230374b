"""Compare the part of an answer that people rely on with a golden file. Further keys
are welcome.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

FOLDER = Path(__file__).parent / "golden"
REWRITE = "TRIAGE_REWRITE_GOLDEN"

# what a generator of a recipe wrote
GENERATED = re.compile(r"TMP/\S+/[0-9a-f]{64}\.mlir")

ANY = "any"
"""The value itself is compared."""
NUMBER = "<number>"
"""A number is wanted, such as a time. Which number is not compared."""
PRESENT = "<present>"
"""Only the key has to be there."""

REVISION = dict.fromkeys(("name", "commit", "date", "subject"), ANY)
FAILURE = dict.fromkeys(
    ("class", "signature", "headline", "phase", "pass", "location", "details"), ANY
)
CHANGE = {"before": REVISION, "after": REVISION}
RUN = {
    "results": [
        {
            **dict.fromkeys(("recipe", "case", "status", "reason"), ANY),
            "toolchain": REVISION,
            "failure": {**FAILURE, "stage": ANY},
            "cached": PRESENT,
            "seconds": NUMBER,
            "peak_rss_mb": NUMBER,
            "metrics": PRESENT,
        }
    ]
}
CLASSIFY = {
    "logs": [{"log": ANY, "failures": [{**FAILURE, "line": ANY, "count": ANY}]}]
}
HISTORY = {
    "cases": [
        {
            "case": ANY,
            "changes": [{**CHANGE, "from": ANY, "to": ANY}],
            "statuses": ANY,
            "compiles": NUMBER,
        }
    ]
}
NIGHT = {
    "schema": PRESENT,
    "toolchain": REVISION,
    "baseline": REVISION,
    **dict.fromkeys(("regressed", "fixed", "changed"), PRESENT),
    "unchanged": ANY,
    "untestable": ANY,
    "clusters": [
        {
            "signature": ANY,
            "cases": ANY,
            "culprit": PRESENT,
            "reproducer": PRESENT,
            "remedies": PRESENT,
            "issue": PRESENT,
        }
    ],
    "reports": PRESENT,
    "cases": [
        {
            **dict.fromkeys(
                ("case", "status", "baseline_status", "stage", "change"), ANY
            ),
            "failure": FAILURE,
        }
    ],
    "stages": ANY,
}
BISECT = {
    **dict.fromkeys(("case", "kind", "status", "confirmed"), ANY),
    **CHANGE,
    "suspects": [{**REVISION, "probability": NUMBER}],
    **dict.fromkeys(("probes", "rounds", "cached"), NUMBER),
    "other_failures": PRESENT,
    "untestable": PRESENT,
}
REDUCE = {
    **dict.fromkeys(("status", "signature", "operations", "lines"), ANY),
    "bytes": {"before": NUMBER, "after": NUMBER},
    "oracle_calls": NUMBER,
    "seconds": NUMBER,
    "reproducer": PRESENT,
}
REMEDY = {
    "remedies": [
        {
            "flags": ANY,
            "input_change": ANY,
            **dict.fromkeys(("verified_on", "breaks", "explanation"), PRESENT),
        }
    ],
    "tried": NUMBER,
}
LINT = {
    "findings": [{"rule": ANY, "severity": ANY, "message": PRESENT, "location": ANY}],
    "devices": [{"name": ANY, "references": ANY}],
    "suggested_flags": ANY,
}
ROW = {
    "case": ANY,
    "toolchain": REVISION,
    "function": ANY,
    "median": NUMBER,
    "reason": ANY,
}
BENCH = {
    **dict.fromkeys(("baseline", "sizes"), PRESENT),
    "results": [
        {
            **ROW,
            **dict.fromkeys(("samples", "ratio", "low", "high", "verdict"), PRESENT),
        }
    ],
}
ATTRIBUTE = {
    **dict.fromkeys(("case", "status", "failing_pass", "first_phase"), ANY),
    "pass": {"name": ANY, "argument": ANY},
}
BROKE = {**CHANGE, "failure": FAILURE}


def selected(value: Any, shape: Any, where: str = "$") -> Any:
    """Return the part of a value that the shape names. A dict in a shape accepts null
    as well.
    """
    if isinstance(shape, Mapping):
        if value is None:
            return None
        missing = shape.keys() - value.keys()
        assert not missing, f"{where} lacks {sorted(missing)}"
        return {
            key: selected(value[key], inner, f"{where}.{key}")
            for key, inner in shape.items()
        }
    if isinstance(shape, list):
        return [
            selected(item, shape[0], f"{where}[{number}]")
            for number, item in enumerate(value)
        ]
    if shape == NUMBER:
        assert value is None or (
            isinstance(value, int | float) and not isinstance(value, bool)
        ), f"{where}: {value!r}"
        return value if value is None else NUMBER
    return PRESENT if shape == PRESENT else value


def check(name: str, value: Any, shape: Any, *folders: Path) -> None:
    """Compare with the golden file of this name, or write it. `folders`: temporary
    ones, whose paths are not compared.
    """
    text = json.dumps(
        selected(value, shape), indent=1, ensure_ascii=False, sort_keys=True
    )
    for folder in folders:
        text = text.replace(str(folder), "TMP")
    text = GENERATED.sub("INPUT.mlir", text.replace(str(ROOT), "ROOT"))
    path = FOLDER / f"{name}.json"
    if os.environ.get(REWRITE):
        path.write_text(text + "\n")
    assert json.loads(text) == json.loads(path.read_text()), f"differs from {path.name}"
