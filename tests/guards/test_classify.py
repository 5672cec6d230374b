"""Classification: the JSON of a few logs. tests/classify/test_corpus.py has the
failures from public threads.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Triage
from tests.guards import golden

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


def test_the_json_of_a_few_logs(triage: Triage, tmp_path: Path) -> None:
    for name, text in LOGS.items():
        (tmp_path / name).write_text(text)
    done = triage("classify", "--format", "json", *(tmp_path / name for name in LOGS))
    assert done.returncode == 1
    golden.check("classify", json.loads(done.stdout), "classify", tmp_path)
    assert triage("classify", tmp_path / "nothing").returncode == 0
