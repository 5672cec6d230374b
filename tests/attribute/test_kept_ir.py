"""The IR of earlier compiles is found again as it was, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mlir.printed_ir import WORDS
from triage.attribute.kept_ir import IrCollector, KeptIr, PrintedIr
from triage.mlir.ir_reader import DumpReader
from triage.model.execution import Ending
from triage.toolchains.home import Home

PRINTED = b"""// -----// IR Dump After Cse (cse) //----- //
"t.module"() ({
  "t.func"() <{sym_name = "f"}> ({
    "t.loop"() {config = {tile = [4, 8]}} : () -> f32
  }) : () -> ()
}) : () -> ()
// -----// IR Dump After Fold Failed (fold) //----- //
"t.func"() <{sym_name = "f"}> ({
  "t.add"() : () -> f32
}) : () -> ()
"""


def test_what_was_kept_is_found(tmp_path: Path) -> None:
    collector = IrCollector()
    DumpReader(WORDS, collector.add).feed(PRINTED)
    printed = PrintedIr(collector.dumps, Ending.SIGNALLED, passed=False)
    assert [dump.failed for dump in printed.dumps] == [False, True]
    KeptIr(Home(tmp_path)).add("key", printed)
    assert KeptIr(Home(tmp_path)).find("key") == printed
    assert KeptIr(Home(tmp_path)).find("other key") is None


@pytest.mark.parametrize("ending", [Ending.TIMED_OUT, Ending.OVER_MEMORY])
def test_a_compile_that_reached_a_limit_is_not_kept(
    tmp_path: Path, ending: Ending
) -> None:
    kept = KeptIr(Home(tmp_path))
    kept.add("key", PrintedIr([], ending, passed=False))
    assert kept.find("key") is None


def test_a_file_of_another_version_counts_as_missing(tmp_path: Path) -> None:
    kept = KeptIr(Home(tmp_path))
    kept.add("key", PrintedIr([], Ending.EXITED, passed=True))
    assert kept.find("key")
    [file] = tmp_path.rglob("*.json")
    file.write_text('{"dumps": [1], "ending": "late"}')
    assert kept.find("key") is None
