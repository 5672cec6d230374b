"""Classification: a corpus of failures from public threads, whose counts must not fall, and the JSON of a few logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT, Triage
from tests.guards import golden

RIGHT, SPECIFIC = 511, 415  # of 513 logs with a failure; 417 of them have an expected specific signature
LOGS = {
    "overflow": """m.mlir:7:8: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes
  %0 = linalg.matmul ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
       ^
m.mlir:7:8: note: see current operation: "func.func"() : () -> ()
m.mlir:7:8: error: failed to run translation of source executable to target executable
""",
    "assertion": "python3: /src/lib/Tools/LinearLayout.cpp:526: LinearLayout mlir::triton::LinearLayout::reshapeOuts("
    "ArrayRef<int>) const: Assertion `getTotalOutDimSize() == total' failed.\nAborted (core dumped)\n",
    "nothing": "[1/2] Building\n[2/2] Linking\nall 12 tests passed\n",
}


def corpus() -> list[dict[str, Any]]:
    folder = next((ROOT / "tests" / "data").glob("classify*"), ROOT / "benchmarks" / "classify_corpus")
    return [entry for path in sorted(folder.glob("*.yaml")) for entry in yaml.safe_load(path.read_text("utf-8"))]


def listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_the_corpus(triage: Triage, tmp_path: Path) -> None:
    entries = corpus()
    paths = [tmp_path / f"{number}.log" for number in range(len(entries))]
    for path, entry in zip(paths, entries, strict=True):
        path.write_text(entry["log"], "utf-8")
    done = triage("classify", "--format", "json", *paths)
    assert done.returncode == 1, done.stderr
    right, specific, wrong, alarms = 0, 0, [], []
    for entry, log in zip(entries, json.loads(done.stdout)["logs"], strict=True):
        failure = next(iter(log["failures"]), {"class": None, "headline": "", "signature": ""})
        if "class" not in entry:
            alarms += [entry["log"]] if log["failures"] else []
            continue
        is_right = failure["class"] in listed(entry["class"])
        is_right &= any(headline in failure["headline"] for headline in listed(entry["headline"]))
        is_specific = all(any(name in failure["signature"] for name in names.split("|")) for names in entry["names"])
        right += is_right
        specific += bool(entry["names"]) and is_specific
        wrong += [] if is_right and is_specific else [(entry["thread"], failure["class"], failure["signature"])]
    assert not alarms
    assert right >= RIGHT, wrong
    assert specific >= SPECIFIC, wrong


def test_the_json_of_a_few_logs(triage: Triage, tmp_path: Path) -> None:
    for name, text in LOGS.items():
        (tmp_path / name).write_text(text)
    done = triage("classify", "--format", "json", *(tmp_path / name for name in LOGS))
    assert done.returncode == 1
    golden.check("classify", json.loads(done.stdout), golden.CLASSIFY, tmp_path)
    assert triage("classify", tmp_path / "nothing").returncode == 0
