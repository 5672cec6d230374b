"""The table in CONTRIBUTING.md is true: each kind of change works in a copy of the
package with only the files it names. `test_family_tutorial` adds a family.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORMAT = '''
"""A report format for a test: one line."""

from __future__ import annotations

from triage.report.document import Document


def line(result: object, document: Document) -> str:
    """The name of the result's class."""
    return f"one line: {type(result).__name__}\\n"
'''

PASS = '''
"""A reduction pass for a test: drop the last line."""

from __future__ import annotations

from triage.reduce.problem import ReductionProblem


def drop_last_line(problem: ReductionProblem) -> None:
    """Do nothing."""
'''


CLASSIFY = "from triage.cli import main; main()"
PASSES = """from pathlib import Path
from triage.reduce.text import text_form
print([step.__name__ for step in text_form(None, Path("build.log")).passes])"""


@pytest.mark.parametrize(
    ("module", "text", "changed", "lines", "words", "shown"),
    [
        (
            "report/line.py",
            FORMAT,
            "report/formats.py",
            {
                '    "text": "triage.report.terminal:text",\n': '    "line": "triage.report.line:line",\n'
            },
            [CLASSIFY, "classify", "build.log", "--format", "line"],
            "one line: ",
        ),
        (
            "reduce/last_line.py",
            PASS,
            "reduce/text.py",
            {
                "        drop_lines,\n": "        drop_last_line,\n",
                "from triage.model.case import Case\n": "from triage.reduce.last_line import drop_last_line\n",
            },
            [PASSES],
            "'drop_last_line'",
        ),
    ],
    ids=["format", "reduction pass"],
)
def test_it_is_a_module_and_a_line(
    tmp_path: Path,
    module: str,
    text: str,
    changed: str,
    lines: dict[str, str],
    words: list[str],
    shown: str,
) -> None:
    package = tmp_path / "src" / "triage"
    shutil.copytree(ROOT / "triage", package)
    (package / module).write_text(text.lstrip())
    table = (package / changed).read_text()
    for before, line in lines.items():
        assert table.count(before) == 1
        table = table.replace(before, before + line)
    (package / changed).write_text(table)
    (tmp_path / "build.log").write_text("input.mlir:1:1: error: it failed\n")
    env = os.environ | {
        "PYTHONPATH": str(package.parent),
        "TRIAGE_HOME": str(tmp_path / "home"),
    }
    command = [sys.executable, "-c", *words]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown in done.stdout, done.stderr
